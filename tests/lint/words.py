#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Words that the project has replaced (retired-words.txt) do not come back in names or prose, and
what the glossary of docs/HACKING.md names exists.
Usage: words.py [--write] [SOURCE_ROOT]; prints TAP.

--write lowers the numbers of retired-words.txt to the uses that are left."""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap

SCOPES = {"sources": ["src", "include", "share", "tools"], "tests": ["tests", "fixtures"], "documents": ["docs"]}
LIST = "tests/lint/retired-words.txt"
# Inputs of the fuzz targets are bytes, and the list contains the words.
NOT_OURS = re.compile(rf"__pycache__/|tests/fuzz/corpus/|{re.escape(LIST)}$")
NAME_PARTS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[_-]")


class Row:
    def __init__(self, line):
        pattern, self.instead, *numbers = (part.strip() for part in line.split(" : "))
        self.word = pattern
        self.pattern = re.compile(rf"\b(?:{pattern})\b".replace(" ", r"\s+"))
        allowed = numbers[0].split() if numbers else ["0"] * len(SCOPES)
        self.allowed = {scope: int(number) for scope, number in zip(SCOPES, allowed, strict=True)}
        self.uses = {scope: [] for scope in SCOPES}  # "FILE:LINE"

    def counts(self):
        return {scope: len(uses) for scope, uses in self.uses.items()}

    def problems(self):
        for scope, uses in self.uses.items():
            allowed = self.allowed[scope]
            if len(uses) > allowed == 0:
                yield from (f"{use}: '{self.word}', expected: {self.instead}" for use in uses)
            elif len(uses) > allowed:
                yield (f"'{self.word}' has {len(uses)} uses in {scope}, expected at most {allowed}: "
                       f"write {self.instead}")
            elif len(uses) < allowed:
                yield (f"'{self.word}' has {len(uses)} uses in {scope}, {LIST} says {allowed}: "
                       "run tests/lint/words.py --write")


def read_rows(root):
    lines = (root / LIST).read_text().splitlines()
    return [Row(line) for line in lines if line and not line.startswith("#")]


def separate(text):
    """`AttachRequest` and `attach_request` become "attach request", as prose has it."""
    return NAME_PARTS.sub(" ", text).lower()


def texts(root):
    for scope, folders in SCOPES.items():
        for file in sorted(each for folder in folders for each in (root / folder).rglob("*")):
            name = str(file.relative_to(root))
            if file.is_file() and not NOT_OURS.search(name):
                try:
                    yield scope, name, file.read_text()
                except UnicodeDecodeError:
                    continue
    yield "documents", "README.md", (root / "README.md").read_text()


def find_uses(root, rows):
    for scope, name, text in texts(root):
        path, body = separate(name), separate(text)
        for row in rows:
            if row.pattern.search(path):
                row.uses[scope].append(f"{name}:0")
            row.uses[scope] += (f"{name}:{body.count(chr(10), 0, found.start()) + 1}"
                                for found in row.pattern.finditer(body))


def write(root, rows):
    """A row without uses loses its numbers. A number never rises."""
    rows = {row.word: row for row in rows}
    lines = (root / LIST).read_text().splitlines()
    for index, line in enumerate(lines):
        row = rows.get(line.split(" : ")[0].strip())
        if line.count(" : ") == 2 and row:
            left = [min(count, row.allowed[scope]) for scope, count in row.counts().items()]
            numbers = f" : {' '.join(map(str, left))}" if any(left) else ""
            lines[index] = line.rpartition(" : ")[0] + numbers
    (root / LIST).write_text("\n".join(lines) + "\n")


def glossary_problems(root):
    """Types and files of the last column, and the order of the first one."""
    section = (root / "docs/HACKING.md").read_text().split("\n## Words\n")[1].split("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")][1:]
    code = "\n".join(file.read_text() for folder in ("include", "src") for file in (root / folder).rglob("*.hpp"))
    words = [re.sub(r"[^\w ]", "", word.lower()) for word, *_ in rows]
    yield from (f"'{word}' is not in alphabetical order" for before, word in zip(words, words[1:]) if word < before)
    for word, _, carriers in rows:
        for carrier in re.findall(r"`([^`]*)`", carriers):
            known = (root / carrier).exists() if "/" in carrier else \
                re.search(rf"\b(?:class|struct|enum(?: class)?) {carrier}\b(?!;)", code)
            if not known:
                yield f"'{word}': '{carrier}' does not exist"


def main():
    arguments = [each for each in sys.argv[1:] if each != "--write"]
    root = Path(arguments[0] if arguments else ".").resolve()
    rows = read_rows(root)
    find_uses(root, rows)
    if "--write" in sys.argv:
        write(root, rows)
        return
    tap = Tap()
    tap.check("retired words do not come back", [each for row in rows for each in row.problems()])
    tap.check("the glossary is sorted and names types and files that exist", list(glossary_problems(root)))
    tap.done()


if __name__ == "__main__":
    main()
