#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles the program of docs/bpf-programs.md as the page says: docs_object.py PAGE arm64|x86 OUT."""
import subprocess
import sys
import tempfile
from pathlib import Path


def block(page: str, language: str) -> str:
    return page.split(f"```{language}\n", 1)[1].split("```", 1)[0]


def main() -> None:
    page, arch, out = sys.argv[1:]
    text = Path(page).read_text(encoding="utf-8")
    command = next(line for line in block(text, "sh").splitlines() if f"_ARCH_{arch} " in line)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "greetings.bpf.c").write_text(block(text, "c"), encoding="utf-8")
        subprocess.run(["sh", "-c", command], cwd=folder, check=True)
        Path(out).write_bytes((Path(folder) / "greetings.bpf.o").read_bytes())


main()
