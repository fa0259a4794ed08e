#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that one class opens the image of a file and its debug information, and makes the index of its
symbols: Binary in src/binary, which does each once. A second way would read the same file again, and could
find other debug files for it. Prints TAP.

    openers.py SOURCE_ROOT
"""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap

BINARY = {"src/binary/binary.cpp", "src/binary/binary.hpp"}
# What may be done only in these files besides Binary's.
RULES = (
    (re.compile(r"\bImage::(open|parse)\("), {"src/elf/image.cpp"}, "Binary opens images"),
    # An object with BPF programs is not a file that is probed.
    (re.compile(r"\bDebugInfo::(open|parse)\("), {"src/dwarf/debug_info.cpp", "src/trace/user_programs.cpp"},
     "Binary opens debug information"),
    (re.compile(r"\bSymbolFinder(>| \w+[;({]|[({]\w)|(\b|::)symbol_at\(\*"), {"src/symbols/symbol_at.cpp"},
     "Binary::symbol_at() finds symbols by address"),
)


def problems(texts: dict[str, str]):
    for name, text in texts.items():
        for number, line in enumerate(text.splitlines(), 1):
            for pattern, allowed, why in RULES:
                if pattern.search(line.partition("//")[0]) and name not in BINARY | allowed:
                    yield f"{name}:{number}: {why}: {line.strip()}"


def unused(texts: dict[str, str]):
    for pattern, allowed, why in RULES:
        for name in sorted(allowed):
            if not pattern.search(texts.get(name, "")):
                yield f"{name}: is permitted, but does not do it ({why})"


BROKEN = {"src/a.cpp": "  auto image = elf::Image::open(path);\n  const auto image = Image::parse(bytes);\n"
                       "  dwarf::DebugInfo::open(image, where);\n  DebugInfo::parse(bytes);\n"
                       "  SymbolFinder finder(image);\n  std::optional<SymbolFinder> finder_;\n"
                       "  SymbolFinder(image).at(address);\n  return symbol_at(*image, address);\n"}
SOUND = {"src/a.cpp": "  auto file = Binary::open(path); // as Image::open()\n  file->symbol_at(address);\n",
         "src/binary/binary.cpp": "  return elf::Image::open(path);\n"}


def main():
    root = Path(sys.argv[1])
    tap = Tap()
    tap.check("this check finds what it looks for", [] if len(list(problems(BROKEN))) == 8 else list(problems(BROKEN)))
    tap.check("this check finds nothing else", list(problems(SOUND)))
    sources = {str(file.relative_to(root)): file.read_text()
               for file in sorted((root / "src").rglob("*")) if file.suffix in {".cpp", ".hpp"}}
    tap.check("one class opens images and debug information", list(problems(sources)))
    tap.check("each exception is needed", list(unused(sources)))
    tap.done()


if __name__ == "__main__":
    main()
