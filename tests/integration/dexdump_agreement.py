#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""dexdump_agreement.py DEX_LISTER FIXTURES
Every method of DEX files, with its signature and access flags, as Debian's dexdump has them: of OAT
files that the build makes, and of those of the corpus. Prints TAP."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap

PRIMITIVES = {"V": "void", "Z": "boolean", "B": "byte", "S": "short", "C": "char", "I": "int", "J": "long",
              "F": "float", "D": "double"}
TYPE = re.compile(r"(\[*)(?:([VZBSCIJFD])|L([^;]+);)")


def java(match):
    brackets, primitive, name = match.groups()
    return (PRIMITIVES[primitive] if primitive else name.replace("/", ".")) + "[]" * len(brackets)


def dumped(dex):
    """'ACCESS SIGNATURE' of each method that is defined in the file."""
    text = subprocess.run(["dexdump", dex], capture_output=True, check=True).stdout
    # Names come as they are in the file, in modified UTF-8.
    text = text.decode("utf-8", "surrogatepass").encode("utf-16", "surrogatepass").decode("utf-16")
    methods = Counter()
    for line in text.splitlines():
        key, _, value = (part.strip() for part in line.partition(":"))
        if re.match(r"#\d+$", key) and value.startswith("(in "):
            owner = java(TYPE.match(value.removeprefix("(in ")))
        elif key == "name":
            name = value.strip("'")
        elif key == "type":
            kind = value.strip("'")
        elif key == "access" and kind.startswith("("):
            parameters, _, returns = kind[1:].partition(")")
            listed = ", ".join(java(m) for m in TYPE.finditer(parameters))
            access = value.split()[0]
            methods[f"{int(access, 16):#x} {java(TYPE.match(returns))} {owner}.{name}({listed})"] += 1
    return methods


def dex_files(oat, folder):
    """The DEX files in the jar or APK beside the OAT file, or in its VDEX file."""
    for suffix in (".jar", ".apk"):
        archive = oat.with_suffix(suffix)
        if archive.exists():
            with zipfile.ZipFile(archive) as opened:
                return [opened.extract(n, folder) for n in opened.namelist() if re.fullmatch(r"classes\d*\.dex", n)]
    vdex = oat.with_suffix(".vdex").read_bytes()
    found = []
    for match in re.finditer(rb"dex\n03\d\0", vdex):
        size = int.from_bytes(vdex[match.start() + 32:match.start() + 36], "little")
        path = Path(folder) / f"{match.start()}.dex"
        path.write_bytes(vdex[match.start():match.start() + size])
        found.append(str(path))
    return found


def compare(tap, lister, oat):
    with tempfile.TemporaryDirectory() as folder:
        expected = sum((dumped(dex) for dex in dex_files(oat, folder)), Counter())
    said = subprocess.run([lister, oat], capture_output=True, text=True)
    if "unsupported OAT version" in said.stderr:
        tap.skip(f"{oat.name}: its methods are those of dexdump", said.stderr.strip())
        return
    found = Counter(said.stdout.splitlines())
    problems = [f"only dexdump: {m}" for m in (expected - found).elements()]
    problems += [f"only here: {m}" for m in (found - expected).elements()]
    if not expected:
        problems.append("no DEX file was dumped: " + said.stderr)
    tap.check(f"{oat.name}: {sum(expected.values())} methods are those of dexdump", problems[:20])


def main(lister, fixtures):
    tap = Tap()
    if not shutil.which("dexdump"):
        tap.skip("methods are those of dexdump", "no dexdump on this machine")
        tap.done()
        return
    for name in ("v131", "v170", "v225", "v244"):
        compare(tap, lister, Path(fixtures) / "art" / f"{name}.odex")
    corpus = os.environ.get("UPROBECTL_CORPUS")
    if not corpus:
        tap.skip("methods of real files are those of dexdump", "UPROBECTL_CORPUS is not set")
    for oat in sorted(Path(corpus or "/nonexistent").glob("oat/*/*.odex")):
        compare(tap, lister, oat)
    tap.done()


if __name__ == "__main__":
    main(*sys.argv[1:])
