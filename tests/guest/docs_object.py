#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles an object of docs/bpf-programs.md as the page says: docs_object.py PAGE arm64|x86 OUT.

The page has its source, NAME.bpf.c for OUT NAME.bpf.o, and the command for greetings.bpf.c.
"""
import subprocess
import sys
import tempfile
from pathlib import Path


def block(page: str, language: str, begins: str = "") -> str:
    blocks = [each.split("```", 1)[0] for each in page.split(f"```{language}\n")[1:]]
    return next(each for each in blocks if each.startswith(begins))


def main() -> None:
    page, arch, out = sys.argv[1:]
    text = Path(page).read_text(encoding="utf-8")
    name = Path(out).name.removesuffix(".bpf.o")
    commands = block(text, "sh", "clang").splitlines()
    command = next(line for line in commands if f"_ARCH_{arch} " in line).replace("greetings", name)
    with tempfile.TemporaryDirectory() as folder:
        source = block(text, "c", f"/* {name}.bpf.c */")
        (Path(folder) / f"{name}.bpf.c").write_text(source, encoding="utf-8")
        subprocess.run(["sh", "-c", command], cwd=folder, check=True)
        Path(out).write_bytes((Path(folder) / f"{name}.bpf.o").read_bytes())


main()
