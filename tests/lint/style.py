#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The rules that need no compiler: format, sizes, names, shell scripts, files that
no meson.build lists, names of machines and hosts that must not leak, the wording of documents,
comments and messages, and the width and links of documents.
Usage: style.py [SOURCE_ROOT]; prints TAP."""

import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from licence_lines import licence_problems
from tap import Tap

FOLDERS = ["src", "include", "tests", "tools", "fixtures", "share", "docs", ".ci"]
CODE = {".cpp", ".hpp", ".c", ".h", ".py", ".sh", ""}
C_FAMILY = {".cpp", ".hpp", ".c", ".h"}
# Saved inputs of the fuzz targets are bytes, not files to read.
NOT_OURS = re.compile(r"(^|/)(__pycache__|tests/fuzz/corpus)/")

MAX_LINES = 800  # beyond this a file holds more than one class, algorithm or table
# Of prose in a document; tables, code and links that cannot be broken are exempt.
MAX_COLUMNS = 100
FENCE = re.compile(r"\s*(```|~~~)")
# Constructions that readers stumbled over, with what to write instead. Single words: words.py.
PHRASES = [
    (r"\brooms?\b", "module, space"),
    (r"(?<!neither )(?<!both )(?<!each )\bof which\b", "two sentences"),
    (r"\bthat which\b", "what, or the noun"),
    (r"(?<!there )\b(is|are) no (?!(longer|more|less|other)\b)", "is not a"),
    (r"\bwhat \w+ does is\b", "subject, verb, object"),
    (r"\bno news\b", "is not reported"),
    (r"^Nothing if\b", "Returns nothing if"),
    (r"\bexclude each other\b", "cannot be combined"),
    (r"\btak(e|es|ing|en) away\b", "detach, remove"),
    (r"\bwill take\b.*\bto\b.*\bs\b", "may take"),
    (r"\byet to start\b", "not started"),
]
# In sources "room" may mean free space, and "will take" the duration of an operation.
SOURCE_PHRASES = [(pattern, instead) for pattern, instead in PHRASES
                  if "rooms?" not in pattern and "will take" not in pattern] + [
    (r"^Nothing (if|for|when|where|unless)\b", "Returns nothing if"),
    (r"\b(is|are|was|were|be|been) told\b", "is reported, is known"),
    (r"\b(of|by|for|to) nobody\b", "without an owner, unused"),
    (r"\b(does|do|goes|go) (not )?go with\b", "cannot be combined with"),
]


def compiled(phrases):
    return [(re.compile(pattern, re.IGNORECASE), instead) for pattern, instead in phrases]


PHRASES = compiled(PHRASES)
SOURCE_PHRASES = compiled(SOURCE_PHRASES)
# Written in pieces, so that this file does not match its own rule. /proc/PID may stand before the third.
LEAKS = re.compile("|".join(["deb" + r"\.debian", "registry" + r"\.npm", r"(?<![\w+])/roo" + "t/", "/tmp/w" + "t/"]))


def project_files(root):
    for folder in FOLDERS:
        for file in sorted((root / folder).rglob("*")):
            name = str(file.relative_to(root))
            if file.is_file() and not NOT_OURS.search(name):
                yield name, file
    for file in sorted(root.iterdir()):
        if file.is_file() and file.name not in {".git", "LICENSE"}:
            yield file.name, file


def text_of(file):
    try:
        return file.read_text()
    except UnicodeDecodeError:
        return None


def format_problems(root, files):
    sources = [str(f) for name, f in files if f.suffix in C_FAMILY]
    if not sources:
        return []
    result = subprocess.run(["clang-format-19", "--dry-run", "-Werror", *sources], cwd=root,
                            capture_output=True, text=True)
    return result.stderr.splitlines()[:60] if result.returncode else []


def size_problems(files):
    lines = {name: text.count("\n") for name, f in files
             if f.suffix in CODE and "/" in name and (text := text_of(f)) is not None}
    return [f"{name}: {count} lines, expected at most {MAX_LINES}"
            for name, count in lines.items() if count > MAX_LINES]


def name_problems(files):
    banned = re.compile(r"(^|[/_.-])(utils|helpers?|misc)([/_.-]|$)")
    return [f"{name}: name the thing it is" for name, _ in files if banned.search(name)]


def build_list(root, file):
    """The text of the nearest meson.build at or above a file, up to the top."""
    folder = file.parent
    while not (folder / "meson.build").exists() and folder != root:
        folder = folder.parent
    return (folder / "meson.build").read_text() if (folder / "meson.build").exists() else ""


def unlisted(root, files):
    """Compiled sources under src and tests, and .test files, must stand in a meson.build (headers
    come with who includes them; the fuzz targets are found by their name)."""
    for name, file in files:
        wanted = name.startswith(("src/", "tests/")) and file.suffix in {".cpp", ".c", ".test"}
        if not wanted or name.startswith(("tests/fuzz/", "tests/integration/runner_selftest/")):
            continue
        if not re.search(rf"(?<![\w-]){re.escape(file.stem)}(?![\w-])", build_list(root, file)):
            yield f"{name}: no meson.build lists it"


def leaks(files):
    for name, file in files:
        text = text_of(file)
        for number, line in enumerate((text or "").splitlines(), 1):
            if LEAKS.search(line):
                yield f"{name}:{number}: {line.strip()[:100]}"


def documents(files):
    for name, file in files:
        if name == "README.md" or (name.startswith("docs/") and file.suffix == ".md"):
            yield name, file.read_text().splitlines()


def prose(lines):
    """The numbered lines of a document outside of fenced and indented code."""
    fenced = False
    for number, line in enumerate(lines, 1):
        if FENCE.match(line):
            fenced = not fenced
        elif not fenced and not line.startswith("    "):
            yield number, line


def wide_lines(files):
    for name, lines in documents(files):
        for number, line in prose(lines):
            if len(line) > MAX_COLUMNS and not line.startswith("|") and " " in line.lstrip("- "):
                yield f"{name}:{number}: {len(line)} columns, expected at most {MAX_COLUMNS}"


def phrase_problems(files):
    for name, lines in documents(files):
        for number, line in prose(lines):
            # Messages of the program are quoted as they are.
            words = re.sub(r"`[^`]*`", "", line)
            for pattern, instead in PHRASES:
                if found := pattern.search(words):
                    yield f"{name}:{number}: '{found[0]}', expected: {instead}"


COMMENT = re.compile(r"\s*(//|/\*|\*(?!\w))[/!*<]*\s?(.*?)\s*(\*/)?$")
TRAILING = re.compile(r"\s//\s?(.*)$|/\*(.*?)\*/")
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')


def source_texts(text):
    """(number of its first line, text) of each comment and string of a C or C++ file. The lines of a
    comment are one text."""
    comment = []
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if found := COMMENT.match(line):
            comment.append((number, found[2]))
            continue
        if comment:
            yield comment[0][0], "\n".join(part for _, part in comment)
            comment = []
        if line.startswith("#include"):
            continue
        yield number, " ".join(STRING.findall(line))
        without_strings = STRING.sub('""', line)
        if found := TRAILING.search(without_strings):
            yield number, found[1] or found[2] or ""


def marked_lines(text, mark):
    return [(number, found[1]) for number, line in enumerate(text.splitlines(), 1)
            if (found := re.match(mark, line))]


def source_phrase_problems(files):
    """Comments and messages of programs, texts of options, titles and comments of tests."""
    for name, file in files:
        if file.suffix in C_FAMILY:
            texts = source_texts(file.read_text())
        elif name == "src/cli/options.toml":
            texts = enumerate(file.read_text().splitlines(), 1)
        elif file.suffix == ".test":
            texts = marked_lines(file.read_text(), r"(?:===|#) (.*)")
        elif file.suffix in {".sh", ".py"} and file.name != Path(__file__).name:
            texts = marked_lines(file.read_text(), r".*# (.*)")
        else:
            continue
        for first, text in texts:
            for pattern, instead in SOURCE_PHRASES:
                for found in pattern.finditer(text.replace("\n", " ")):
                    number = first + text.count("\n", 0, found.start())
                    yield f"{name}:{number}: '{found[0]}', expected: {instead}"


def broken_links(root, files):
    """Links between documents, and to their headings."""
    for name, lines in documents(files):
        for number, line in prose(lines):
            for target, anchor in re.findall(r"\]\(([^)#\s:]*)(?:#([^)\s]*))?\)", line):
                page = ((root / name).parent / target) if target else root / name
                if not page.exists():
                    yield f"{name}:{number}: no file '{target}'"
                elif anchor and page.suffix == ".md" and anchor not in headings(page):
                    yield f"{name}:{number}: no heading '#{anchor}' in '{target or name}'"


def headings(page):
    titles = [line.lstrip("# ") for _, line in prose(page.read_text().splitlines()) if line.startswith("#")]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def bash_scripts(files):
    for _, file in files:
        with file.open("rb") as stream:
            if file.suffix != ".in" and re.match(rb"#!.*\b(ba)?sh\b|# shellcheck shell=bash$", stream.readline()):
                yield str(file)


def shell_problems(root, files):
    scripts = list(bash_scripts(files))
    result = subprocess.run(["shellcheck", "-x", *scripts], cwd=root, capture_output=True, text=True)
    return result.stdout.splitlines()[:60] if result.returncode else []


def defined_twice(files):
    """Functions that two scripts of the guests define: one shell reads them all, and runs the last one."""
    known = {}
    for name, file in files:
        if re.fullmatch(r"tests/guest/\w+\.sh", str(name)):
            for function in re.findall(r"^(\w+)\(\)", file.read_text(), re.M):
                if (first := known.setdefault(function, name)) != name:
                    yield f"{name}: {function}() is defined in {first}, too"


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    files = list(project_files(root))
    tap = Tap()
    tap.check("C and C++ are formatted as .clang-format says", format_problems(root, files))
    tap.check(f"no file has more than {MAX_LINES} lines",
              size_problems(files))
    tap.check("no file is named utils, helper or misc", name_problems(files))
    tap.check("every source file is listed in a meson.build", list(unlisted(root, files)))
    tap.check("no file names a machine or a package host", list(leaks(files)))
    tap.check(f"documents have at most {MAX_COLUMNS} columns", list(wide_lines(files)))
    tap.check("documents use plain words", list(phrase_problems(files)))
    tap.check("comments and messages use plain words", list(source_phrase_problems(files)))
    tap.check("links of documents lead somewhere", list(broken_links(root, files)))
    tap.check("every source file says its licence", list(licence_problems(files)))
    tap.check("scripts of the guests have a function each for a name", list(defined_twice(files)))
    tap.check("shell scripts pass shellcheck", shell_problems(root, files))
    tap.done()


main()
