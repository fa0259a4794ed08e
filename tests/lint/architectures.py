#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks which files name an architecture. What is data stands in src/arch, and what depends on machine code in
src/insn; every other file that decides by the name of an architecture is one more for the next architecture.
docs/design/architectures.md lists them. Prints TAP.

    architectures.py SOURCE_ROOT
"""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap

OWNERS = ("src/arch/", "src/insn/", "src/bpf/programs/", "include/uprobectl/arch.hpp")
DOCUMENT = "docs/design/architectures.md"
NAMED = re.compile(r"\bArch::(?!unknown\b)[a-z]\w*|\b__(x86_64|i386|aarch64|arm)__\b|\"(x86_64|aarch64)\"")
ROW = re.compile(r"^\| `((?:src|include)/[\w./]+)` \|", re.MULTILINE)


def naming(texts: dict[str, str]):
    """The files with a name outside of comments, each with one of its lines."""
    for name, text in texts.items():
        for number, line in enumerate(text.splitlines(), 1):
            if not name.startswith(OWNERS) and NAMED.search(line.partition("//")[0]):
                yield name, f"{name}:{number}: {line.strip()}"
                break


def problems(texts: dict[str, str], document: str):
    listed = set(ROW.findall(document))
    found = dict(naming(texts))
    yield from (f"{line} (ArchInfo has what is data; src/insn knows machine code)"
                for name, line in found.items() if name not in listed)
    yield from (f"{name} names no architecture, but {DOCUMENT} lists it"
                for name in sorted(listed) if not name.startswith(OWNERS) and name not in found)


TEXTS = {"src/a.cpp": "if (arch == Arch::arm64) f();", "src/b.cpp": "// as Arch::arm64\nArch::unknown;",
         "src/c.cpp": "#if defined(__x86_64__)", "src/insn/d.cpp": "Arch::i386"}


def main():
    root = Path(sys.argv[1])
    tap = Tap()
    found = list(problems(TEXTS, "| `src/a.cpp` | x |\n| `src/b.cpp` | y |\n"))
    tap.check("this check finds what it looks for", [] if len(found) == 2 else found)
    texts = {str(file.relative_to(root)): file.read_text()
             for folder in ("src", "include") for file in sorted((root / folder).rglob("*.[ch]pp"))}
    tap.check("only these files name an architecture", list(problems(texts, (root / DOCUMENT).read_text())))
    tap.done()


if __name__ == "__main__":
    main()
