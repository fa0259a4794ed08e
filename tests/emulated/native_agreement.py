#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The build for another machine and the native build print the same bytes for the same commands on the same files.

Usage: native_agreement.py UPROBECTL NATIVE_UPROBECTL FIXTURES LIBRARIES
Prints TAP."""

import subprocess
import sys
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap

# With C, C++ and many versions: of the other machine, and of this one. Their listings take an emulator longest.
OTHERS, OURS = "libc.so.6", Path("/usr/lib/x86_64-linux-gnu/libstdc++.so.6")


def questions(file):
    """Listings, patterns, numbers, and what cannot be answered; more of an archive's entries."""
    if file.suffix == ".apk":
        yield ["list-symbols", file]
        yield ["list-symbols", "--json", file]
        targets = [f"{file}!/{entry}" for entry in zipfile.ZipFile(file).namelist() if entry.endswith(".so")]
        yield ["resolve", "--json", file, "file-offset:0x1000", "file-offset:0x28034"]
    else:
        targets = [str(file)]
    for target in targets:
        yield ["list-symbols", "--json", target]
        if file.name in (OTHERS, OURS.name):
            yield ["resolve", "--json", target, "*mem*"]
            continue
        yield ["list-symbols", "-v", target]
        yield ["resolve", "--json", target, "*"]
        yield ["resolve", "-v", "--all", target, "*a*", "plt:*"]
        yield ["resolve", "--json", target, "offset:0x1200", "vaddr:0x11240", "file-offset:0x40"]
        yield ["resolve", target, "no_such_function"]


def answer(program, question):
    result = subprocess.run([program, *question], capture_output=True, timeout=120, check=False)
    return result.returncode, result.stdout, result.stderr


def first_difference(theirs, ours):
    for name, native, other in zip(("exit status", "stdout", "stderr"), theirs, ours):
        if native == other:
            continue
        if isinstance(native, int):
            return f"{name}: natively {native}, here {other}"
        pairs = zip((*native.splitlines(), b"(end)"), (*other.splitlines(), b"(end)"))
        line = next(pair for pair in pairs if pair[0] != pair[1])
        return f"{name}: natively {line[0].decode()}\n  here {line[1].decode()}"
    return None


def main(program, native, fixtures, libraries):
    tap = Tap()
    files = sorted([*Path(fixtures).rglob("*.so"), *Path(fixtures).rglob("*.apk")])
    files += [path for path in (Path(libraries, OTHERS), OURS) if path.exists()]
    if not Path(native).exists() or not files:
        tap.skip("answers of both builds", f"no native build with tests: {native}")
        files = []
    for file in files:
        problems, answered = [], 0
        for question in questions(file):
            theirs = answer(native, question)
            answered += theirs[0] == 0
            if difference := first_difference(theirs, answer(program, question)):
                problems.append(f"{' '.join(map(str, question))}: {difference}")
        if not answered:
            problems.append("no question was answered")
        tap.check(f"the same answers about {file.parent.name}/{file.name}", problems)
    tap.done()


main(*sys.argv[1:])
