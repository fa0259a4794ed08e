#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""boundaries_agreement.py BOUNDARY_LISTER
Holds the module insn against llvm-objdump-19 in every function of libc: inside each, instructions must
begin at the same addresses and read the same. One difference is meant: where objdump shows a prefix
on a line of its own (`lock`), ours is one instruction with what follows. Prints TAP."""

import re
import shutil
import struct
import subprocess
import sys
from bisect import bisect_left
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from tap import Tap

LIBC = "/lib/x86_64-linux-gnu/libc.so.6"
OBJDUMP = "llvm-objdump-19"
PREFIXES = {"lock", "rep", "repne", "data16", "data32", "addr32", "rex64", "cs", "ds", "es", "fs",
            "gs", "ss"}
LINE = re.compile(r"^ *([0-9a-f]+):\s+(.*?)\s*$")
CIE = re.compile(r"^([0-9a-f]+) .* CIE$")
AUGMENTATION = re.compile(r'Augmentation: +"(.*)"')
FRAME = re.compile(r"FDE cie=([0-9a-f]+) pc=([0-9a-f]+)\.\.([0-9a-f]+)")
COMMENT = re.compile(r"^\s+# (0x[0-9a-f]+)")  # a second one, below its instruction
SYMBOL = re.compile(r" <[^>]*>")
SHOWN = 20  # differences, of possibly thousands


def executable_segments(data):
    """(address, size in the file, offset) of each PT_LOAD with PF_X: ELF64, little-endian."""
    table, = struct.unpack_from("<Q", data, 0x20)
    entry_size, count = struct.unpack_from("<HH", data, 0x36)
    for i in range(count):
        kind, flags, offset, address, _, size = struct.unpack_from("<IIQQQQ", data,
                                                                   table + i * entry_size)
        if kind == 1 and flags & 1:
            yield address, size, offset


def said_by_readelf(path, *options):
    return subprocess.run(["readelf", "-W", *options, path], capture_output=True, text=True,
                          check=True).stdout.splitlines()


def functions(path):
    """Address -> size of every function that .dynsym or the unwind data name, as GNU readelf says.
    The unwind data know the local functions too, whose names are stripped. A signal trampoline's
    ('S') begin one byte early, for unwinders that subtract one from a return address."""
    found = {}
    signal_frames = set()
    cie = None
    for line in said_by_readelf(path, "--debug-dump=frames,no-follow-links"):
        if match := CIE.match(line):
            cie = match[1]
        elif match := AUGMENTATION.search(line):
            if "S" in match[1]:
                signal_frames.add(cie)
        elif match := FRAME.search(line):
            start, end = int(match[2], 16), int(match[3], 16)
            if match[1] not in signal_frames:
                found[start] = end - start
    for line in said_by_readelf(path, "--dyn-syms"):
        field = line.split()
        if len(field) > 7 and field[3] in ("FUNC", "IFUNC") and field[6] != "UND":
            start, size = int(field[1], 16), int(field[2], 0)
            found[start] = max(size, found.get(start, 0))
    return found


def disassembled(path):
    """Two lists: where instructions begin, in order, and how they read. Tabs are single spaces and
    symbols are left out, as in our text."""
    addresses, texts = [], []
    after_prefix = False
    # Where a debug file with the same build id is installed, objdump reads that instead, whose .text
    # has no bytes, and prints nothing: it looks for debug files in a folder without any.
    command = [OBJDUMP, "--debug-file-directory=" + str(HERE / "none"), "-d", "--no-show-raw-insn",
               path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            match = LINE.match(line)
            if more := COMMENT.match(line):
                texts[-1] += " # " + more[1]
            if not match:
                after_prefix = False
                continue
            text = " ".join(SYMBOL.sub("", match[2]).split())
            if after_prefix:
                texts[-1] += " " + text
            else:
                addresses.append(int(match[1], 16))
                texts.append(text)
            after_prefix = text in PREFIXES
    if process.returncode != 0:
        raise RuntimeError(f"{OBJDUMP} exits {process.returncode}")
    return addresses, texts


def ours(lister, path, wanted, segments):
    """For each function a dict of instruction addresses to texts, and where our decoder gives up."""
    ranges = "".join(f"{a:x} {a - s + offset:x} {size:x}\n" for a, size in wanted
                     for s, length, offset in segments if s <= a < s + length)
    output = subprocess.run([lister, path], input=ranges, capture_output=True, text=True,
                            check=True).stdout
    found, given_up = {}, {}
    for line in output.splitlines():
        function, address, text = line.split(" ", 2)
        if address == "unknown":
            given_up[int(function, 16)] = int(text, 16)
        else:
            found.setdefault(int(function, 16), {})[int(address, 16)] = text
    return found, given_up


def shown(problems):
    return problems[:SHOWN] + ([f"and {len(problems) - SHOWN} more"] if len(problems) > SHOWN else [])


def main():
    tap = Tap()
    name = f"boundaries agree with {OBJDUMP} in every function of libc"
    reason = None
    if shutil.which(OBJDUMP) is None:
        reason = f"no {OBJDUMP}"
    elif not Path(LIBC).exists():
        reason = f"no {LIBC}"
    if reason:
        tap.skip(name, reason)
        return tap.done()

    segments = list(executable_segments(Path(LIBC).read_bytes()))
    wanted = sorted(functions(LIBC).items())
    addresses, texts = disassembled(LIBC)
    found, given_up = ours(sys.argv[1], LIBC, wanted, segments)

    problems, misread, instructions = [], [], 0
    for start, size in wanted:
        low, high = bisect_left(addresses, start), bisect_left(addresses, start + size)
        unknown = next((addresses[i] for i in range(low, high) if "<unknown>" in texts[i]), None)
        theirs = {addresses[i]: texts[i] for i in range(low, high)
                  if unknown is None or addresses[i] < unknown}
        listed = found.get(start, {})
        instructions += len(listed)
        if given_up.get(start) != unknown:
            problems.append(f"{start:#x}: ours ends at {given_up.get(start)}, theirs at {unknown}")
        for a in sorted(theirs.keys() ^ listed.keys()):
            side = "only objdump" if a in theirs else "only ours"
            problems.append(f"{start:#x}+{a - start:#x}: {side}")
        misread += [f"{a:#x}: '{listed[a]}' is '{text}'" for a, text in theirs.items()
                    if listed.get(a, text) != text]
    tap.check(name, shown(problems))
    tap.check(f"each instruction of libc reads as {OBJDUMP} prints it", shown(misread))
    tap.check("libc has functions enough to mean something",
              [] if len(wanted) > 1000 and instructions > 100_000 else [len(wanted), instructions])
    print(f"# {len(wanted)} functions, {instructions} instructions")
    tap.done()


main()
