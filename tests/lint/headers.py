#!/usr/bin/env python3
"""Compiles every header alone, twice in a row, with each compiler given.
Usage: headers.py SOURCE_ROOT COMPILER[,COMPILER…] FLAG…; prints TAP, one case per header."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap

# clang calls unused what only a header's user would use.
WARNINGS = ["-Wall", "-Wextra", "-Wshadow", "-Wnon-virtual-dtor", "-Woverloaded-virtual", "-Werror",
            "-Wno-unused-const-variable", "-Wno-unused-function"]


def compile_alone(job):
    root, header, compiler, flags = job
    name = header.relative_to(root)
    # The public ones are what a user of the library includes: the private folders stay unseen.
    folders = ["-I", str(root / "include")]
    if name.parts[0] == "src":
        folders += ["-I", str(root / "src"), "-I", str(header.parent)]
    command = [compiler, "-std=c++23", "-fsyntax-only", *WARNINGS, *folders, *flags, "-x", "c++", "-"]
    source = f'#include "{header}"\n' * 2
    result = subprocess.run(command, input=source, capture_output=True, text=True)
    return f"{name} ({Path(compiler).name})", result.returncode, result.stderr[:4000]


def main():
    root, compilers, flags = Path(sys.argv[1]).resolve(), sys.argv[2].split(","), sys.argv[3:]
    headers = sorted((root / "include").rglob("*.hpp")) + sorted((root / "src").rglob("*.hpp"))
    jobs = [(root, header, compiler, flags) for header in headers for compiler in compilers]
    tap = Tap()
    with ThreadPoolExecutor(2) as pool:
        for name, status, errors in pool.map(compile_alone, jobs):
            tap.check(f"{name} compiles alone", [errors or f"exit {status}"] if status else [])
    tap.done()


main()
