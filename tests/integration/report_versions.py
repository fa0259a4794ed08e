#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""report_versions.py UPROBECTL
`uprobectl symbolize` of reports of Android 8 to 11, whose pc count from different bases, of Thumb
code, and of files with debug information but no symbols. Names are those of nm, the pc is computed
from the segments that readelf prints, as libunwindstack and libunwind do it. Prints TAP."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap

UPROBECTL = str(Path(sys.argv[1]).resolve())
TAP = Tap()
PAGE = 4096

# Functions enough that a wrong base finds other functions than these, not none.
SOURCE = "namespace pond {\n" + "".join(
    f"__attribute__((noinline)) int wave{i}(int n) {{ volatile int x = n; return x * {i + 3} + wave_{i}; }}\n".replace(
        f"wave_{i}", str(i)) for i in range(300)) + """
__attribute__((noinline)) int ripple(int n) { volatile int x = n; return x * 2; }
__attribute__((noinline)) int stone(int n) { return ripple(n + 1) + n; }
}
extern "C" __attribute__((visibility("default"))) int toss(int n) { return pond::stone(n) + """ + " + ".join(
    f"pond::wave{i}(n)" for i in range(300)) + "; }\n"
NAMES = ["_ZN4pond6rippleEi", "_ZN4pond5stoneEi", "toss"]


def run(*command, check=True, **more):
    done = subprocess.run([str(each) for each in command], capture_output=True, text=True, timeout=120,
                          check=False, **more)
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.stderr}")
    return done


def nm(file):
    return {words[2]: int(words[0], 16) for line in run("nm", file).stdout.splitlines()
            if len(words := line.split()) == 3}


def code_segment(file):
    """(offset, address) of the executable segment."""
    lines = run("readelf", "-lW", file).stdout
    found = re.search(r"LOAD\s+0x(\w+)\s+0x(\w+)\s+\S+\s+\S+\s+\S+\s+R E", lines)
    return int(found[1], 16), int(found[2], 16)


def printed_pc(version, address, segment):
    """What the unwinder of that version prints of an ELF address, and its "(offset …)"."""
    offset, begin = segment
    mapped = offset // PAGE * PAGE
    in_file = address - begin + offset
    if version >= 11:
        return address, ""
    if version >= 9:  # libunwindstack, whose load bias is 0 here
        return in_file, ""
    if offset == mapped:  # libunwind found the segment of the mapping
        return address, f" (offset {mapped:#x})" if mapped else ""
    return in_file - mapped, f" (offset {mapped:#x})"


def report(version, frames, name=""):
    text = f"Build fingerprint: 'acme/brook/brook:{version}/QKQ1/20.5.1:user/release-keys'\nbacktrace:\n"
    for i, (pc, offset) in enumerate(frames):
        text += f"      #{i:02} pc {pc:016x}  /data/app/x/lib/arm64/libbig.so{offset}{name}\n"
    return text


def symbolize(text, symbols):
    done = run(UPROBECTL, "symbolize", "--json", "--symbols", symbols, "-", input=text)
    records = [json.loads(line) for line in done.stdout.splitlines()]
    return [record["symbol"] for record in records if not record["inlined"]], done.stderr, records


def versions():
    compilers = {"lld": ["clang++-19", "-fuse-ld=lld-19"], "GNU ld": ["g++"],
                 "lld, 16 KiB": ["clang++-19", "-fuse-ld=lld-19", "-Wl,-z,max-page-size=16384"],
                 "one segment": ["clang++-19", "-fuse-ld=lld-19", "-Wl,-z,noseparate-code", "-Wl,--no-rosegment"]}
    for linker, compiler in compilers.items():
        title = f"pc counts as the version of the report has it: {linker}"
        if not shutil.which(compiler[0]):
            TAP.skip(title, f"no {compiler[0]}")
            continue
        folder = Path(linker.replace(" ", "_"))
        folder.mkdir()
        (folder / "big.cpp").write_text(SOURCE, encoding="ascii")
        library = folder / "libbig.so"
        run(*compiler, "-O1", "-fPIC", "-fvisibility=hidden", "-shared", "-nostdlib", folder / "big.cpp", "-o", library)
        symbols = nm(library)
        segment = code_segment(library)
        files = {"whole": library}
        for tool in ("objcopy", "llvm-objcopy-19"):
            if shutil.which(tool):
                files[tool] = folder / tool / "libbig.so.debug"
                files[tool].parent.mkdir()
                run(tool, "--only-keep-debug", library, files[tool])
        problems = []
        for version in ("8.1.0", "9", "10", "11", "14"):
            frames = [printed_pc(int(version.split(".")[0]), symbols[name] + 4, segment) for name in NAMES]
            for label, file in files.items():
                found, messages, _ = symbolize(report(version, frames), file)
                if found != NAMES:
                    problems.append(f"Android {version}, {label}, {segment}: {found} {messages}")
        TAP.check(title, problems)
    if "lld" not in compilers or not shutil.which("clang++-19"):
        return
    library = Path("lld/libbig.so")
    # The output of Android 10 for an address in toss(), read as a report of Android 11.
    symbols, (offset, begin) = nm(library), code_segment(library)
    name, wrong = next((name, address + 4) for name, address in symbols.items()
                       if "wave" in name and symbols["toss"] < address + begin - offset < symbols["toss"] + 1000)
    found, messages, _ = symbolize(report("11", [(wrong, "")], " (toss+8)"), library)
    problems = [] if found == [name] else [f"{found}, not {name}"]
    shown = run("c++filt", name).stdout.strip()
    if f"the report says 'toss' at {wrong:#x}, {library} has '{shown}' there" not in messages:
        problems.append(messages)
    found, messages, _ = symbolize(report("10", [(wrong, "")], " (toss+8)"), library)
    if found != ["toss"] or "the report says" in messages:
        problems.append(f"{found} {messages}")
    TAP.check("a name that differs from that of the report is a warning with both", problems)


def thumb():
    title = "offsets in Thumb functions are those of the instruction"
    if not shutil.which("clang-19"):
        TAP.skip(title, "no clang-19")
        return
    Path("t.c").write_text("int before(int n) { return n; }\n"
                           "int leaf(int n) { volatile int x = n; return x + 3 * x; }\n", encoding="ascii")
    run("clang-19", "--target=armv7-linux-gnueabihf", "-mthumb", "-fuse-ld=lld-19", "-O1", "-fPIC", "-shared", "-nostdlib",
        "t.c", "-o", "libthumb.so")
    begin = nm("libthumb.so")["leaf"] & ~1
    # libunwindstack's pc of a caller is odd: a return address has bit 0 set.
    text = f"backtrace:\n    #02 pc {begin + 5:08x}  /apex/libthumb.so (leaf+4)\n"
    _, messages, records = symbolize(text, "libthumb.so")
    found = [(record["symbol"], record["symbol_offset"]) for record in records]
    TAP.check(title, [] if found == [("leaf", "0x4")] else [f"{found} {messages}"])


def without_symbols():
    title = "a file with debug information but no symbols has the names of its functions"
    Path("s.c").write_text(
        "int sink;\nstatic inline __attribute__((always_inline)) void leaf(int a) { sink += a; }\n"
        "__attribute__((noinline)) void outer(int a) { leaf(a + 1); }\nint main(void) { outer(1); return 0; }\n",
        encoding="ascii")
    run("gcc", "-g", "-O1", "-no-pie", "s.c", "-o", "s")
    address = nm("s")["outer"]
    run("strip", "--keep-section=.debug_*", "s")
    text = f"    #1 0x7f00 ({os.getcwd()}/s+{address + 3:#x})\n"
    _, messages, records = symbolize(text, "s")
    found = [(record["symbol"], record["symbol_offset"]) for record in records if not record["inlined"]]
    TAP.check(title, [] if found == [("outer", "0x3")] else [f"{found} {messages}"])


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for group in (versions, thumb, without_symbols):
            group()
        os.chdir("/")
    TAP.done()


main()
