#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every function of this machine's libc and libstdc++ (or of the files given) that GNU readelf lists,
name and version: the offset computed here from readelf's program headers against what `uprobectl
resolve` and `list-symbols` give. Usage: readelf_agreement.py UPROBECTL [FILE…]; prints TAP."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap

LOAD = re.compile(r"\s+LOAD\s+(0x\w+)\s+(0x\w+)\s+0x\w+\s+(0x\w+)\s+0x\w+\s+(.{3})")
# Num: Value Size Type Bind Vis Ndx Name
SYMBOL = re.compile(r"\s*\d+:\s+([0-9a-f]+)\s+(\w+)\s+(FUNC|IFUNC)\s+\w+\s+\w+\s+(\w+)\s+(\S+)")
LIBRARIES = ["libc.so.6", "libstdc++.so.6"]


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False).stdout


def path_of(library):
    """As the loader of this machine finds it, asked independently of us."""
    if "/" in library:
        return library if Path(library).exists() else None
    for line in output("/sbin/ldconfig", "-p").splitlines():
        name, _, path = line.strip().partition(" => ")
        if name.split(" ")[0] == library and "libc6" in name:
            return path
    return None


def expected_offsets(path):
    loads = [(int(o, 16), int(a, 16), int(s, 16))
             for o, a, s, flags in LOAD.findall(output("readelf", "-lW", path)) if "E" in flags]
    result = {}
    for line in output("readelf", "--dyn-syms", "-W", path).splitlines():
        symbol = SYMBOL.match(line)
        if not symbol or symbol[4] == "UND":
            continue
        address = int(symbol[1], 16)
        for offset, start, size in loads:
            if start <= address < start + size:
                result[symbol[5]] = address - start + offset
    return result


def records(program, *arguments):
    return [json.loads(line) for line in output(program, *arguments).splitlines()]


def resolve_problems(program, path, expected):
    names = sorted(expected)
    given = {}
    for begin in range(0, len(names), 500):
        for record in records(program, "resolve", "--json", path, "--", *names[begin:begin + 500]):
            given[record["request"]] = record.get("offset") or record["code"]
    return [f"{name}: expected {hex(offset)}, got {given.get(name)}"
            for name, offset in expected.items() if given.get(name) != hex(offset)]


def list_problems(program, path, expected):
    given = {}
    for record in records(program, "list-symbols", "--json", path):
        if record["table"] != "dynsym":
            continue
        mark = "@@" if record["default_version"] else "@"
        name = record["symbol"] + (mark + record["version"] if record["version"] else "")
        given[name] = record["offset"]
    return [f"{name}: expected {hex(offset)}, listed {given.get(name)}"
            for name, offset in expected.items() if given.get(name) != hex(offset)]


def main(program, *files):
    tap = Tap()
    for library in files or LIBRARIES:
        path = path_of(library) if shutil.which("readelf") else None
        if not path:
            tap.skip(f"functions of {library}", "no readelf, or the library is not installed")
            continue
        expected = expected_offsets(path)
        few = [] if len(expected) > 500 else [f"readelf lists only {len(expected)} functions"]
        tap.check(f"{len(expected)} functions of {library} resolve to readelf's offsets",
                  few + resolve_problems(program, path, expected))
        tap.check(f"list-symbols shows all of {library} where readelf does",
                  few + list_problems(program, path, expected))
    tap.done()


main(*sys.argv[1:])
