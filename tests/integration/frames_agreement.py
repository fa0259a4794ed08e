#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""frames_agreement.py UPROBECTL FRAME_LISTER
Source frames of every address of programs, as each compiler here writes them, against llvm-symbolizer:
DWARF 4 and 5, -O1 and -O2, split units, compressed sections, link-time optimization, a debug file of
its own; and `debug-unwind --lines` at one of the addresses. Prints TAP."""

import json
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from tap import Tap

SYMBOLIZER = "llvm-symbolizer-19"

HEADER = """
extern volatile int sink;
struct Counter {
  int value;
  void add(int by) { sink += by; value = sink; }
};
template <typename T> inline T twice(T x) { sink = x; return x + sink; }
static inline int tiny(int x) { sink = x; return twice(x) + 1; }
static inline int middle(int x) {
  int sum = 0;
  for (int i = 0; i < x; ++i) { sum += tiny(i); if (sum > 100) break; }
  return sum;
}
int second(int);
"""
FIRST = """#include "header.h"
volatile int sink;
namespace shop {
__attribute__((noinline)) int outer(Counter& counter, int x) {
  counter.add(middle(x));
  return middle(x + 1) + tiny(counter.value);
}
}
static __attribute__((noinline)) int local(int x) {
  if (__builtin_expect(x > 1000, 0)) { sink = tiny(x); __builtin_trap(); }
  return twice(x);
}
int main(int argc, char**) {
  Counter counter{argc};
  return shop::outer(counter, argc) + local(argc) + second(argc);
}
"""
SECOND = """#include "header.h"
__attribute__((noinline)) int second(int x) { return middle(x) + tiny(x); }
"""


def compile_program(folder, compiler, options):
    folder.mkdir(parents=True)
    (folder / "header.h").write_text(HEADER)
    (folder / "first.cpp").write_text(FIRST)
    (folder / "second.cpp").write_text(SECOND)
    for name in ("first", "second"):  # the objects of one command would have their .dwo elsewhere
        subprocess.run([compiler, "-w", *options, "-c", f"{name}.cpp"], cwd=folder, check=True,
                       capture_output=True)
    subprocess.run([compiler, "-w", *options, "-Wl,--build-id", "first.o", "second.o", "-o", "program"],
                   cwd=folder, check=True, capture_output=True)
    return folder / "program"


def code_range(binary):
    """The start and the size of .text."""
    text = subprocess.run(["readelf", "-SW", binary], capture_output=True, text=True, check=True).stdout
    found = re.search(r"\.text\s+PROGBITS\s+([0-9a-f]+)\s+[0-9a-f]+\s+([0-9a-f]+)", text)
    return int(found[1], 16), int(found[2], 16)


def frames_of(command, addresses):
    """For each address its frames: (function, position)."""
    text = subprocess.run(command, input="".join(f"{address:#x}\n" for address in addresses),
                          capture_output=True, text=True, check=True).stdout
    blocks = text.strip("\n").split("\n\n")
    return [list(zip(*[iter(block.split("\n"))] * 2)) for block in blocks]


def same_frames(ours, theirs):
    if len(ours) != len(theirs):
        return False
    if any(a != b for a, b in zip(ours[:-1], theirs[:-1])):
        return False
    (name, position), (symbol, expected) = ours[-1], theirs[-1]
    # The last name of the symbolizer is that of the symbol table: "outer.cold", "_ZL5locali", another
    # name of a constructor, and one for code without debug information.
    name, symbol = (re.sub("([CD])1E", r"\g<1>2E", each) for each in (name, symbol))
    if name == "??" and position.startswith("??"):
        return expected.endswith(":0:0")
    return position == expected and name in symbol


def frame_differences(lister, binary, addresses, debug="/nonexistent"):
    ours = frames_of([lister, binary, debug], addresses)
    theirs = frames_of([SYMBOLIZER, "--inlines", "--no-demangle", f"--debug-file-directory={debug}",
                        f"--obj={binary}"], addresses)
    if len(ours) != len(addresses) or len(theirs) != len(addresses):
        return [f"{len(ours)} and {len(theirs)} answers to {len(addresses)} questions"]
    return [f"{address:#x}: {one}, not {other}" for address, one, other in zip(addresses, ours, theirs)
            if not same_frames(one, other)]


def all_addresses(binary, most=20000):
    start, size = code_range(binary)
    return list(range(start, start + size, max(1, size // most)))


def deepest(binary):
    """An address with at least two inlined functions, and the frames that the symbolizer has there."""
    addresses = all_addresses(binary)
    frames = frames_of([SYMBOLIZER, "--inlines", "--no-demangle", f"--obj={binary}"], addresses)
    return max(zip(addresses, frames), key=lambda pair: len(pair[1]))


def unwound(uprobectl, program, address, folder, *options):
    """What debug-unwind says of a thread at the address."""
    folder.mkdir()
    shutil.copy(program, folder)
    bias = 0x550000000000
    (folder / "regs.txt").write_text(f"rip: {bias + address:x}\nrsp: 7000\n")
    headers = subprocess.run(["readelf", "-lW", program], capture_output=True, text=True).stdout
    for offset, vaddr, size in re.findall(
            r"LOAD\s+0x([0-9a-f]+) 0x([0-9a-f]+) 0x[0-9a-f]+ 0x([0-9a-f]+) 0x[0-9a-f]+ R E", headers):
        first, length = int(vaddr, 16), int(size, 16)
        if first <= address < first + length:
            begin = first & ~0xFFF
            end = (first + length + 0xFFF) & ~0xFFF
            at = int(offset, 16) - (first - begin)
            (folder / "maps.txt").write_text(
                f"{bias + begin:x}-{bias + end:x} r-xp {at:08x} 00:00 0 /x/program\n")
    (folder / "stack.data").write_bytes(struct.pack("<Q", 0x7000))
    return subprocess.run([uprobectl, "debug-unwind", "--quiet", *options, folder],
                          capture_output=True, text=True).stdout


def unwinding_problems(uprobectl, program, folder):
    address, expected = deepest(program)
    if len(expected) < 3:
        return [f"no address has two inlined functions: {expected}"]
    said = unwound(uprobectl, program, address, folder / "json", "--lines", "--json")
    records = [json.loads(line) for line in said.splitlines()][:len(expected)]
    problems = []
    for index, (record, (name, position)) in enumerate(zip(records, expected)):
        found = f"{record['source']}:{record['line'] or 0}:{record['column'] or 0}"
        if (record["symbol"], found) != (name, position) or record["index"] != index:
            problems.append(f"{record}, not {name} {position}")
        if record["inlined"] != (index < len(expected) - 1):
            problems.append(f"{record} is not the last of {len(expected)}")
    if len(records) != len(expected):
        problems.append(f"{len(records)} frames")
    text = unwound(uprobectl, program, address, folder / "text", "--lines").splitlines()
    line = expected[0][1].rsplit("/", 1)[1].rsplit(":", 1)[0]
    if not re.fullmatch(rf"0\t0x[0-9a-f]+\t.* \[inlined\] \(program\+{address:#x}\) at {line}", text[0]):
        problems.append(text[0])
    if "source" in unwound(uprobectl, program, address, folder / "without", "--json"):
        problems.append("lines without --lines")
    return problems


def main():
    uprobectl, lister = sys.argv[1:]
    tap = Tap()
    if not shutil.which(SYMBOLIZER):
        tap.skip("frames agree with llvm-symbolizer", f"no {SYMBOLIZER}")
        tap.done()
        return
    cases = [(compiler, f"-gdwarf-{version}", level)
             for compiler in ("g++", "clang++-19") if shutil.which(compiler)
             for version in (4, 5) for level in ("-O1", "-O2")]
    cases += [(compiler, "-g", "-O2", more)
              for compiler in ("g++", "clang++-19") if shutil.which(compiler)
              for more in ("-gz=zlib", "-gsplit-dwarf")]
    cases += [("g++", "-g", "-O0"), ("g++", "-g", "-O2", "-flto"), ("g++", "-gdwarf-4", "-gsplit-dwarf", "-O2")]
    with tempfile.TemporaryDirectory() as name:
        program = None
        for number, (compiler, *options) in enumerate(cases):
            program = compile_program(Path(name, str(number)), compiler, options)
            tap.check(f"{compiler} {' '.join(options)}",
                      frame_differences(lister, program, all_addresses(program))[:10])

        program = compile_program(Path(name, "unwound"), "g++", ["-g", "-O2"])
        tap.check("debug-unwind --lines shows them as frames",
                  unwinding_problems(uprobectl, program, Path(name, "unwound")))

        split = compile_program(Path(name, "unreadable"), "g++", ["-g", "-O2", "-gsplit-dwarf"])
        start = int(subprocess.run(["nm", split], capture_output=True, text=True).stdout
                    .split(" T main")[0].rsplit("\n", 1)[-1], 16)
        line = frames_of([lister, split, "/nonexistent"], [start])[0][-1][1]
        (split.parent / "first.dwo").unlink()
        tap.check("without the split unit the line is still known",
                  [] if frames_of([lister, split, "/nonexistent"], [start]) == [[("??", line)]]
                  else [frames_of([lister, split, "/nonexistent"], [start])])

        debug = Path(name, "debug")
        build_id = re.search(r"Build ID: (\w+)", subprocess.run(
            ["readelf", "-n", program], capture_output=True, text=True).stdout)[1]
        separate = debug / ".build-id" / build_id[:2] / f"{build_id[2:]}.debug"
        separate.parent.mkdir(parents=True)
        subprocess.run(["objcopy", "--only-keep-debug", program, separate], check=True)
        addresses = all_addresses(program)
        whole = frames_of([lister, program, "/nonexistent"], addresses)
        subprocess.run(["strip", program], check=True)
        tap.check("the debug file is found by its build id",
                  [] if frames_of([lister, program, debug], addresses) == whole else ["others"])
    tap.done()


if __name__ == "__main__":
    main()
