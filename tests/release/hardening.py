#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How the program is hardened (SECURITY.md), as GNU readelf sees the static program and the objects that it
is linked from, and as the kernel maps it. Usage: hardening.py SOURCE BUILD [EMULATOR…]; prints TAP.
EMULATOR runs programs of another architecture."""

import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap

PROGRAM = "src/cli/uprobectl"
# The machine as readelf names it -> the features that each object of ours has.
FEATURES = {"Advanced Micro Devices X86-64": {"IBT", "SHSTK"}, "AArch64": {"BTI", "PAC"}}
# What is written before main() only: constructors, destructors, vtables and tables of addresses, thread-local
# initial values, and the addresses of functions that libc chooses by the processor.
READ_ONLY = (".tdata", ".init_array", ".fini_array", ".data.rel.ro", ".cold.init_array", ".cold.data.rel.ro", ".got",
             ".got.plt")
# From this many bytes of code on, an object has functions with arrays or with variables whose address is taken.
LARGE = 16384


def output(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout


@dataclass
class Section:
    name: str
    address: int
    size: int
    flags: str


@dataclass
class Segment:
    kind: str
    offset: int
    address: int
    file_size: int
    size: int
    flags: str
    alignment: int

    def contains(self, section):
        return self.address <= section.address and section.address + section.size <= self.address + self.size


def sections_in(text):
    """Of what readelf -SW prints."""
    row = re.compile(r"^\s*\[ *\d+\] (\S+) +\S+ +([0-9a-f]+) [0-9a-f]+ ([0-9a-f]+) [0-9a-f]+ +([A-Za-z]*) ", re.M)
    return [Section(name, int(address, 16), int(size, 16), flags) for name, address, size, flags in row.findall(text)]


def segments_of(program):
    row = re.compile(r"^  (\w+) +(0x\w+) (0x\w+) 0x\w+ (0x\w+) (0x\w+) ([RWE ]{3}) (0x\w+)", re.M)
    return [Segment(kind, *[int(number, 16) for number in numbers], flags.replace(" ", ""), int(alignment, 16))
            for kind, *numbers, flags, alignment in row.findall(output("readelf", "-lW", program))]


def code_problems(sections, loaded):
    """What is executable besides code."""
    problems = []
    for segment in loaded:
        if "E" not in segment.flags:
            continue
        if "W" in segment.flags:
            problems.append(f"the segment at {segment.address:#x} is writable and executable")
        problems += [f"{section.name} is not code, and executable" for section in sections
                     if "A" in section.flags and "X" not in section.flags and section.size and segment.contains(section)]
        # The kernel maps whole pages.
        mask = segment.alignment - 1
        begin = segment.offset & ~mask
        end = (segment.offset + segment.file_size + mask) & ~mask
        problems += [f"the segment at {other.address:#x} shares a page with code" for other in loaded
                     if other is not segment and other.offset < end and begin < other.offset + other.file_size]
    return problems


def relro_problems(sections, segments):
    relro = [segment for segment in segments if segment.kind == "GNU_RELRO"]
    if len(relro) != 1:
        return [f"{len(relro)} segments GNU_RELRO"]
    return [f"{section.name} stays writable" for section in sections
            if section.name in READ_ONLY and not relro[0].contains(section)]


def stack_problems(segments):
    stacks = [segment.flags for segment in segments if segment.kind == "GNU_STACK"]
    return [] if stacks == ["RW"] else [f"GNU_STACK: {stacks}, expected RW"]


def position_problems(source, program):
    """The documentation and the program say the same."""
    is_fixed = "Type:                              EXEC" in output("readelf", "-hW", program)
    says_fixed = "at a fixed address" in (source / "SECURITY.md").read_text()
    return [] if is_fixed == says_fixed else [f"at a fixed address: {is_fixed}, in SECURITY.md: {says_fixed}"]


def mapping_problems(program, segments):
    """What the kernel says of a run that waits for its input, after libc has made GNU_RELRO read-only."""
    page = 4096
    lowest = next(segment.address for segment in segments if segment.kind == "LOAD") // page * page
    relro = next(segment for segment in segments if segment.kind == "GNU_RELRO")
    with subprocess.Popen([program, "symbolize", "-"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as run:
        deadline = time.monotonic() + 60
        problems = ["it has not started"]
        while problems and run.poll() is None and time.monotonic() < deadline:
            text = Path(f"/proc/{run.pid}/maps").read_text()
            found = [(int(begin, 16), int(end, 16), mode)
                     for begin, end, mode in re.findall(r"^(\w+)-(\w+) (\S+)", text, re.M)]
            if str(program) not in text:
                continue
            tables = [(found[0][0] - lowest + at) // page * page for at in (relro.address, relro.address + relro.size)]
            problems = [f"{begin:#x} is mapped {mode}" for begin, end, mode in found
                        if "w" in mode and ("x" in mode or (begin < tables[1] and tables[0] < end))]
        if run.poll() is not None:
            problems = [f"it ended with status {run.returncode}"]
        run.stdin.close()
    return problems


@dataclass
class Object:
    name: str
    code_size: int
    features: set
    undefined: set


def objects_of(build):
    """The objects that the program is linked from and this build compiles."""
    names = [name for name in output("ninja", "-C", build, "-t", "inputs", PROGRAM).splitlines()
             if name.endswith(".o") and not name.endswith(".bpf.o")]
    found = []
    for name in names:
        text = output("readelf", "-SnsW", build / name)
        properties = re.search(r"feature: ([\w, ]+)", text)
        found.append(Object(name=name,
                            code_size=sum(section.size for section in sections_in(text) if "X" in section.flags),
                            features=set(properties[1].split(", ")) if properties else set(),
                            undefined=set(re.findall(r"UND (\w+)", text))))
    return found


def main():
    source, build, *emulator = map(Path, sys.argv[1:])
    program = build / PROGRAM
    tap = Tap()
    machine = re.search(r"Machine: +(.*)", output("readelf", "-hW", program))[1]
    sections = sections_in(output("readelf", "-SW", program))
    segments = segments_of(program)
    loaded = [segment for segment in segments if segment.kind == "LOAD"]

    tap.check("only code is executable, and it is not writable", code_problems(sections, loaded))
    tap.check("the stack is not executable", stack_problems(segments))
    tap.check("tables of addresses are read-only after the start", relro_problems(sections, segments))
    tap.check("SECURITY.md says whether the program is at a fixed address", position_problems(source, program))
    name = "the kernel maps nothing writable that is executable, nor the tables"
    if emulator:
        tap.skip(name, f"the program runs under {emulator[0]}")
    else:
        tap.check(name, mapping_problems(program, segments))

    objects = objects_of(build)
    large = [each for each in objects if each.code_size >= LARGE]
    tap.check("each object of ours has landing pads for indirect branches, and protects return addresses",
              [f"{each.name}: {each.features}" for each in objects if each.features != FEATURES[machine]]
              or ([] if objects else ["no objects"]))
    tap.check("each large object of ours checks its stack frames",
              [each.name for each in large if "__stack_chk_fail" not in each.undefined]
              or ([] if large else ["no large object"]))
    fortified = {name for each in objects for name in each.undefined if re.fullmatch(r"__\w+_chk", name)}
    tap.check("copies and formats of known size are checked",
              [f"{name} is not called: {sorted(fortified)}" for name in ("__memcpy_chk", "__snprintf_chk")
               if name not in fortified])
    tap.done()


main()
