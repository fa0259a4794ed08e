#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Symbols from outside a file against what Python's lzma and GNU nm read there, with offsets computed
here from the stripped file's own program headers: Android's binaries of the corpus, and a system
library stripped on the spot. Usage: debug_agreement.py UPROBECTL; prints TAP."""

import gzip
import json
import lzma
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap

ANDROID = ["pauth_pc_arm64/toybox.gz", "straddle_arm64/libunwindstack_test.gz"]
MAPPING_SYMBOL = re.compile(r"\$[adtx](\.|$)")


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False).stdout


def code_segments(data):
    """(offset, address, size) of every executable PT_LOAD of a 64-bit little-endian file."""
    table, size, count = (struct.unpack_from(f, data, at)[0]
                          for f, at in (("<Q", 32), ("<H", 54), ("<H", 56)))
    for at in range(table, table + size * count, size):
        kind, flags, offset, address, _, file_size = struct.unpack_from("<IIQQQQ", data, at)
        if kind == 1 and flags & 1:
            yield offset, address, file_size


def section(data, wanted):
    headers, = struct.unpack_from("<Q", data, 40)
    size, count, names_index = struct.unpack_from("<HHH", data, 58)
    rows = [struct.unpack_from("<IIQQQQ", data, headers + i * size) for i in range(count)]
    names = rows[names_index][4]
    for row in rows:
        end = data.index(b"\0", names + row[0])
        if data[names + row[0]:end] == wanted:
            return data[row[4]:row[4] + row[5]]
    return None


def offsets(stripped, symbols):
    """{(name, offset)} of the functions and labels that nm sees in the file `symbols`."""
    found = set()
    for line in output("nm", "--format=sysv", "--defined-only", symbols).splitlines():
        fields = [field.strip() for field in line.split("|")]
        if len(fields) != 7:
            continue  # a headline
        name, address, kind, type_name, _, _, section_name = fields
        # nm says T, t and i of code only, but W and w of whatever is weak.
        is_code = kind in "Tti" or type_name == "FUNC" or section_name.startswith(".text")
        if kind not in "TtWwi" or not is_code or MAPPING_SYMBOL.match(name):
            continue
        for offset, start, size in code_segments(stripped):
            if start <= int(address, 16) < start + size:
                found.add((name.split("@")[0], hex(int(address, 16) - start + offset)))
    return found


def listed(program, path, *options):
    for line in output(program, "list-symbols", "--json", *options, path).splitlines():
        record = json.loads(line)
        if record["type"] == "symbol":
            yield record


def problems(program, path, table, expected, *options):
    records = list(listed(program, path, *options))
    ours = {(r["symbol"], r["offset"]) for r in records}
    extra = {(r["symbol"], r["offset"]) for r in records if r["table"] == table} - expected
    few = [] if len(expected) > 300 else [f"nm lists only {len(expected)} functions"]
    return (few + [f"missing: {name} {offset}" for name, offset in sorted(expected - ours)[:20]]
            + [f"not in nm's list: {name} {offset}" for name, offset in sorted(extra)[:20]])


def check_embedded(tap, program, source, folder):
    stripped = gzip.decompress(source.read_bytes())
    path, symbols = folder / source.stem, folder / (source.stem + ".symbols")
    path.write_bytes(stripped)
    symbols.write_bytes(lzma.decompress(section(stripped, b".gnu_debugdata")))
    expected = offsets(stripped, symbols)
    tap.check(f"{source.stem}: {len(expected)} functions of .gnu_debugdata are where nm and the "
              "program headers put them", problems(program, path, "gnu_debugdata", expected))


def check_debug_file(tap, program, full, folder):
    """A static program, which has thousands of local functions, taken apart by objcopy."""
    stripped, symbols = folder / "stripped", folder / "symbols"
    subprocess.run(["objcopy", "--only-keep-debug", full, symbols], check=True)
    subprocess.run(["objcopy", "--strip-all", full, stripped], check=True)
    expected = offsets(stripped.read_bytes(), symbols)
    tap.check(f"{len(expected)} functions of a static program's debug file are where nm and the "
              "program headers put them",
              problems(program, stripped, "debug_file", expected, "--debug-dir", symbols))


def main(program):
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        corpus = os.environ.get("UPROBECTL_CORPUS")
        for name in ANDROID:
            if not corpus or not shutil.which("nm"):
                tap.skip(f"{name}: functions of .gnu_debugdata",
                         "no nm" if corpus else "UPROBECTL_CORPUS is not set")
            else:
                check_embedded(tap, program, Path(corpus, "unwind", name), folder)
        check_debug_file(tap, program, program, folder)
    tap.done()


main(sys.argv[1])
