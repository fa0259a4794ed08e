#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles every header alone, twice in a row, with the last of the compilers given, but for private ones
that a source includes before all else: those are compiled alone with it. The private ones only where
UPROBECTL_ANALYZE is set (tools/test --full). Then all of them together with each compiler: two types of one
name in two modules would be one to the linker.
Usage: headers.py SOURCE_ROOT COMPILER[,COMPILER…] FLAG…; prints TAP, one case per header."""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap

# clang calls unused what only a header's user would use.
WARNINGS = ["-Wall", "-Wextra", "-Wshadow", "-Wnon-virtual-dtor", "-Woverloaded-virtual", "-Werror",
            "-Wno-unused-const-variable", "-Wno-unused-function"]


def compile_headers(headers, folders, compiler, flags):
    """What the compiler has against them; nothing if nothing."""
    paths = [word for folder in folders for word in ("-I", str(folder))]
    command = [compiler, "-std=c++23", "-fsyntax-only", *WARNINGS, *paths, *flags, "-x", "c++", "-"]
    source = "".join(f'#include "{header}"\n' for header in headers)
    result = subprocess.run(command, input=source, capture_output=True, text=True)
    return [result.stderr[:4000] or f"exit {result.returncode}"] if result.returncode else []


def compile_alone(job):
    root, header, compiler, flags = job
    name = header.relative_to(root)
    # The public ones are what a user of the library includes: the private folders stay unseen.
    folders = [root / "include"]
    if name.parts[0] == "src":
        folders += [root / "src", header.parent]
    complaints = compile_headers([header] * 2, folders, compiler, flags)
    return f"{name} compiles alone", complaints


def included_first(root):
    """The private headers that need no test of their own."""
    found = set()
    for source in (root / "src").rglob("*.cpp"):
        first = re.search("^#include (.*)", source.read_text(), re.M)
        if first and first[1].startswith('"'):
            name = first[1].strip('"')
            found |= {path for path in (source.parent / name, root / "src" / name) if path.exists()}
    return found


def main():
    root, compilers, flags = Path(sys.argv[1]).resolve(), sys.argv[2].split(","), sys.argv[3:]
    headers = sorted((root / "include").rglob("*.hpp")) + sorted((root / "src").rglob("*.hpp"))
    proven = included_first(root) if os.environ.get("UPROBECTL_ANALYZE") else set((root / "src").rglob("*.hpp"))
    jobs = [(root, header, compilers[-1], flags) for header in headers if header not in proven]
    tap = Tap()
    with ThreadPoolExecutor(2) as pool:
        for name, complaints in pool.map(compile_alone, jobs):
            tap.check(name, complaints)
    for compiler in compilers:
        tap.check(f"all headers go together ({Path(compiler).name})",
                  compile_headers(headers, [root / "include", root / "src"], compiler, flags))
    tap.done()


main()
