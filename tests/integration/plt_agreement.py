#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PLT entries against two disassemblers' opinion, on every kind of PLT that the build made and on this
machine's own libraries. Usage: plt_agreement.py UPROBECTL FIXTURES; prints TAP."""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap

ENTRY = re.compile(r"^([0-9a-f]+) <([^>@]+)(?:@\w+)?@plt>:$", re.M)
# Compiled into every C program and library, the second with a .plt.got.
SYSTEM_FILES = ["/usr/bin/find", "/usr/bin/python3", "/lib/x86_64-linux-gnu/libm.so.6",
                "/usr/lib/x86_64-linux-gnu/libstdc++.so.6", "/usr/lib/aarch64-linux-gnu/libstdc++.so.6"]


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False).stdout


def disassembled(path):
    """{address: name}. objdump knows the PLTs of its own machine, llvm-objdump those of others; of an
    entry of .plt.got with IBT it names the second instruction, so objdump is asked first."""
    for tool in ("objdump", "llvm-objdump-19", "llvm-objdump"):
        found = ENTRY.findall(output(tool, "-d", path)) if shutil.which(tool) else []
        if found:
            return {int(address, 16): name for address, name in found}
    return {}


def listed(program, path):
    lines = output(program, "list-symbols", "--json", "--kind", "plt", path).splitlines()
    records = [json.loads(line) for line in lines]
    return {int(r["address"], 16): r["symbol"] for r in records}


def differences(expected, found):
    return [f"{hex(address)}: expected {expected.get(address)}, found {found.get(address)}"
            for address in sorted(expected.keys() | found.keys())
            if expected.get(address) != found.get(address)]


def without_section_headers(path, folder):
    data = bytearray(Path(path).read_bytes())
    wide = data[4] == 2
    at, size = (40, 8) if wide else (32, 4)
    data[at:at + size] = bytes(size)
    counts = 58 if wide else 46
    data[counts:counts + 6] = bytes(6)
    bare = Path(folder) / Path(path).name
    bare.write_bytes(data)
    return str(bare)


def check_fixture(tap, program, path, folder):
    expected = disassembled(path)
    found = listed(program, path)
    name = Path(path).name
    problems = differences(expected, found)
    if "no-plt" not in name and "imported" not in expected.values():
        problems.append("the disassemblers name no entry of 'imported'")
    tap.check(f"{name}: {len(expected)} PLT entries are where a disassembler names them", problems)
    # .plt.got needs section headers: `taken` may be in it.
    bare = listed(program, without_section_headers(path, folder))
    certain = {a: n for a, n in expected.items() if n != "taken" or a in bare}
    tap.check(f"{name}: found without section headers", differences(certain, bare))


def check_system(tap, program, path):
    found = listed(program, path)
    # Slots filled by IFUNC resolvers have no name in the file; disassemblers print *ABS*+0x….
    expected = {a: n for a, n in disassembled(path).items() if not n.startswith("*")}
    tap.check(f"{path}: {len(expected)} PLT entries", differences(expected, found))


def main(program, fixtures):
    tap = Tap()
    paths = sorted(Path(fixtures).glob("plt-*.so"))
    if not paths or not shutil.which("objdump"):
        tap.skip("PLT entries of the fixtures", "no clang, no lld or no objdump")
    with tempfile.TemporaryDirectory() as folder:
        for path in paths:
            check_fixture(tap, program, str(path), folder)
    for path in filter(lambda p: Path(p).exists(), SYSTEM_FILES):
        check_system(tap, program, path)
    tap.done()


main(*sys.argv[1:])
