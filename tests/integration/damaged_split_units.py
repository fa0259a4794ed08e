#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Debug information in split units (.dwo, .dwp) and in string offsets that is damaged is not used, and this is said.
Usage: damaged_split_units.py UPROBECTL; prints TAP.

LLVM, which reads the entries, does not get over each of these by itself."""

import random
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap

SOURCE = """
struct order { int id; const char *name; };
static volatile int total;
__attribute__((noinline)) int add(struct order *order, int count) {
  int sum = order->id;
  for (int i = 0; i < count; ++i) { total += i; sum += total * order->id; }
  return sum;
}
int main(int argc, char **argv) { struct order order = {argc, argv[0]}; return add(&order, argc); }
"""
DAMAGES = 20  # of each section


def sections(data):
    """(name, offset, size) of each section with bytes."""
    at = struct.unpack_from("<Q", data, 40)[0]
    size, count, names = struct.unpack_from("<HHH", data, 58)
    headers = [struct.unpack_from("<IIQQQQ", data, at + i * size) for i in range(count)]
    strings = headers[names][4]

    def name(offset):
        return data[strings + offset:data.index(b"\0", strings + offset)].decode()
    return [(name(header[0]), header[4], header[5]) for header in headers if header[1] != 8 and header[5] > 0]


class Tests:
    def __init__(self, uprobectl, folder):
        self.uprobectl, self.folder = str(Path(uprobectl).resolve()), folder

    def compile(self, name, compiler, *options):
        folder = self.folder / name
        folder.mkdir()
        (folder / "shop.c").write_text(SOURCE)
        subprocess.run([compiler, "-g", "-O2", *options, "shop.c", "-o", "shop"], cwd=folder, check=True)
        return folder

    def ask(self, folder, *words):
        """Problems, and what was said on stderr."""
        done = subprocess.run([self.uprobectl, *words], cwd=folder, capture_output=True, timeout=60, check=False)
        said = done.stderr.decode(errors="replace")
        problems = [] if done.returncode in (0, 1) else [f"{words}: status {done.returncode}: {said[:300]}"]
        foreign = [line for line in said.splitlines() if not line.startswith(("uprobectl: ", "    ", "  hint: "))]
        return problems + [f"{words}: {line}" for line in foreign], said

    def offsets_of_strings(self, folder, file, section):
        """The table of string offsets says that it is longer than the section."""
        path = folder / file
        data = bytearray(path.read_bytes())
        offset = next(begin for name, begin, _ in sections(data) if name == section)
        struct.pack_into("<I", data, offset, 0x7fffffff)
        path.write_bytes(data)
        problems = []
        for words in (("list-args", "./shop", "add"), ("resolve", "./shop", "shop.c:6"),
                      ("attach", "--dry-run", "--args", "order->id", "./shop", "add")):
            more, said = self.ask(folder, *words)
            problems += more
            if words[0] != "attach" and "damaged" not in said:
                problems.append(f"{words}: not reported: {said}")
        return problems

    def any_bytes(self, folder, file):
        path = folder / file
        whole = path.read_bytes()
        choice = random.Random(1)
        problems = []
        for name, offset, size in sections(whole):
            if not name.startswith(".debug"):
                continue
            for _ in range(DAMAGES):
                data = bytearray(whole)
                for _ in range(choice.choice((1, 1, 2, 4))):
                    data[offset + choice.randrange(size)] = choice.choice((0, 1, 0x7f, 0x80, 0xff, choice.randrange(256)))
                path.write_bytes(data)
                found, _ = self.ask(folder, "list-args", "./shop", "add")
                problems += [f"{name}: {each}" for each in found]
                if len(problems) > 5:
                    return problems
        path.write_bytes(whole)
        return problems


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as name:
        tests = Tests(sys.argv[1], Path(name))
        # llvm-dwp does not end with the split units of gcc 12.
        split = tests.compile("split", "clang-19", "-gdwarf-5", "-gsplit-dwarf")
        dwo = next(split.glob("*.dwo")).name
        package = Path(shutil.copytree(split, Path(name, "package")))
        subprocess.run(["llvm-dwp-19", dwo, "-o", "shop.dwp"], cwd=package, check=True, timeout=60)
        (package / dwo).unlink()
        tap.check("split units whose string offsets are damaged",
                  tests.offsets_of_strings(tests.compile("offsets", "clang-19", "-gdwarf-5", "-gsplit-dwarf"), dwo,
                                           ".debug_str_offsets.dwo"))
        tap.check("a package whose string offsets are damaged",
                  tests.offsets_of_strings(Path(shutil.copytree(package, Path(name, "package-offsets"))), "shop.dwp",
                                           ".debug_str_offsets.dwo"))
        tap.check("units whose string offsets are damaged",
                  tests.offsets_of_strings(tests.compile("whole", "clang-19", "-gdwarf-5"), "shop", ".debug_str_offsets"))
        gcc = tests.compile("gcc", "gcc", "-gdwarf-5", "-gsplit-dwarf")
        tap.check("any damaged byte of a split unit of gcc", tests.any_bytes(gcc, next(gcc.glob("*.dwo")).name))
        tap.check("any damaged byte of a package", tests.any_bytes(package, "shop.dwp"))
    tap.done()


if __name__ == "__main__":
    main()
