#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""returns_agreement.py EXIT_LISTER
Holds function_exits against GNU objdump (llvm-objdump for arm64 where there is no GNU one) in every
exported function of libc, libstdc++ and others: the same return instructions, the same jumps out of the
function, the same jumps through registers and memory. Prints TAP."""

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

# Library, set, disassemblers, and the fewest functions and returns that mean something.
LIBRARIES = [
    ("/lib/x86_64-linux-gnu/libc.so.6", "x86_64", ["objdump"], 2000, 2000),
    ("/usr/lib/x86_64-linux-gnu/libstdc++.so.6", "x86_64", ["objdump"], 3000, 3000),
    ("/lib/i386-linux-gnu/libc.so.6", "i386", ["objdump"], 1500, 1500),
    ("/usr/aarch64-linux-gnu/lib/libc.so.6", "arm64",
     ["aarch64-linux-gnu-objdump", "llvm-objdump-19"], 2000, 2000),
    ("/usr/aarch64-linux-gnu/lib/libstdc++.so.6", "arm64",
     ["aarch64-linux-gnu-objdump", "llvm-objdump-19"], 3000, 3000),
]
REQUIRED = LIBRARIES[0][0]

# The address, prefixes, the mnemonic and its operands.
LINE = re.compile(r"^ *([0-9a-f]+):\s+((?:(?:bnd|repz?|repnz|notrack|lock|[cdefgs]s|data16|addr32|rex\S*)\s+)*)"
                  r"(\S+)\s*(.*?)\s*$")
RETURN = re.compile(r"^(ret[lqw]?|retaa|retab)$")
BRANCH = re.compile(r"^(j[a-z]+|loop[a-z]*|xbegin|b|b\.[a-z]+|bc\.[a-z]+|cbn?z|tbn?z)(,p[nt])?$")
INDIRECT = re.compile(r"^(br|bra[ab]z?)$")
TARGET = re.compile(r"(?:^|[ ,#])(?:0x)?([0-9a-f]+)(?: <.*)?$")
BAD = re.compile(r"\(bad\)|^\.(byte|word|inst)|^udf")
SHOWN = 20  # differences, of possibly thousands


def output(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=250,
                          **options).stdout


def executable_segments(data):
    """(address, size in the file, offset) of each PT_LOAD with PF_X, little-endian."""
    wide = data[4] == 2
    table, = struct.unpack_from("<Q" if wide else "<I", data, 0x20 if wide else 0x1c)
    entry_size, count = struct.unpack_from("<HH", data, 0x36 if wide else 0x2a)
    for i in range(count):
        at = table + i * entry_size
        if wide:
            kind, flags, offset, address, _, size = struct.unpack_from("<IIQQQQ", data, at)
        else:
            kind, offset, address, _, size, _, flags = struct.unpack_from("<IIIIIII", data, at)
        if kind == 1 and flags & 1:
            yield address, size, offset


def functions(path):
    """Address -> size of every function of .dynsym."""
    found = {}
    for line in output("readelf", "-W", "--dyn-syms", path).splitlines():
        field = line.split()
        if len(field) > 7 and field[3] in ("FUNC", "IFUNC") and field[6] != "UND":
            start, size = int(field[1], 16), int(field[2], 0)
            if size:
                found[start] = max(size, found.get(start, 0))
    return found


def through(prefixes, operands):
    """What objdump's text says of an indirect jump; nothing where that needs more than the text."""
    if "notrack" in prefixes:
        return "table"
    if "(%rip)" in operands or re.match(r"^\*(0x)?[0-9a-f]+$", operands):
        return "slot"
    if re.search(r"\(.*,.*\)", operands):
        return "table"
    return "any"


def disassembled(tool, path):
    """Lists by address: addresses, and (kind, detail) of what may leave a function."""
    addresses, facts = [], []
    command = [tool, "-d", "-w"] if "llvm" not in tool else [tool, "-d"]
    for line in output(*command, "--no-show-raw-insn", path).splitlines():
        match = LINE.match(line)
        if not match:
            continue
        address, prefixes, word, operands = match.groups()
        fact = None
        if BAD.search(word):
            fact = ("bad", None)
        elif RETURN.match(word):
            fact = ("return", None)
        elif INDIRECT.match(word) or (word.startswith("jmp") and operands.startswith("*")):
            fact = ("through", through(prefixes, operands))
        elif BRANCH.match(word):
            target = TARGET.search(operands)
            fact = ("jump", int(target[1], 16) if target else None)
        if fact:
            addresses.append(int(address, 16))
            facts.append(fact)
    return addresses, facts


def expected_exits(start, size, addresses, facts):
    """{(address, kind): target} of the function."""
    exits = {}
    for i in range(bisect_left(addresses, start), bisect_left(addresses, start + size)):
        kind, detail = facts[i]
        if kind == "jump" and (detail is None or start <= detail < start + size):
            continue
        exits[addresses[i], kind] = detail
    return exits


def listed_exits(lister, instruction_set, path, wanted):
    segments = list(executable_segments(Path(path).read_bytes()))
    ranges = "".join(f"{a:x} {a - s + offset:x} {size:x}\n" for a, size in wanted
                     for s, length, offset in segments if s <= a < s + length)
    found = {}
    for line in output(lister, instruction_set, path, input=ranges).splitlines():
        function, kind, address, *target = line.split()
        detail = int(target[0], 16) if target else None
        if kind in ("slot", "table", "indirect"):
            kind, detail = "through", kind
        elif kind == "undecodable":
            kind = "bad"
        found.setdefault(int(function, 16), {})[int(address, 16), kind] = detail
    return found


def differences(start, theirs, ours):
    problems = []
    for key in sorted(theirs.keys() | ours.keys()):
        where = f"{start:#x}: {key[1]} at {key[0]:#x}"
        if key not in ours:
            # Only the first address that is not an instruction is reported, and on arm64 data may be one.
            if key[1] != "bad":
                problems.append(f"{where}: only objdump's")
        elif key not in theirs:
            problems.append(f"{where}: only ours")
        elif theirs[key] != ours[key] and not (theirs[key] == "any" and ours[key] != "slot"):
            problems.append(f"{where}: theirs {theirs[key]}, ours {ours[key]}")
    return problems


def check(tap, lister, path, instruction_set, tool, limits):
    wanted = sorted(functions(path).items())
    addresses, facts = disassembled(tool, path)
    found = listed_exits(lister, instruction_set, path, wanted)
    problems, returns, counts = [], 0, {}
    for start, size in wanted:
        ours = found.get(start, {})
        problems += differences(start, expected_exits(start, size, addresses, facts), ours)
        returns += sum(kind == "return" for _, kind in ours)
        for (_, kind), detail in ours.items():
            name = detail if kind == "through" else kind
            counts[name] = counts.get(name, 0) + 1
    tap.check(f"{path}: the exits of each function are those that {tool} prints",
              problems[:SHOWN] + ([f"{len(problems)} in all"] if len(problems) > SHOWN else []))
    tap.check(f"{path}: there are functions and returns enough to mean something",
              [] if len(wanted) > limits[0] and returns > limits[1] else [len(wanted), returns])
    print(f"# {path}: {len(wanted)} functions, {counts}")


def main(lister):
    tap = Tap()
    for path, instruction_set, tools, *limits in LIBRARIES:
        tool = next((t for t in tools if shutil.which(t)), None)
        if tool and Path(path).exists():
            check(tap, lister, path, instruction_set, tool, limits)
        elif path == REQUIRED:
            tap.skip(f"{path}: exits agree", f"no {path} or no {tools[0]}")
    tap.done()


main(sys.argv[1])
