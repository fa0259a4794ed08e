#!/usr/bin/env python3
"""The rules that need no compiler: format, sizes, names, shell scripts, files that
no meson.build lists, and names of machines and hosts that must not leak.
Usage: style.py [SOURCE_ROOT]; prints TAP."""

import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap

FOLDERS = ["src", "include", "tests", "tools", "fixtures", "share", "docs", ".ci"]
CODE = {".cpp", ".hpp", ".c", ".h", ".py", ".sh", ""}
C_FAMILY = {".cpp", ".hpp", ".c", ".h"}
# Saved inputs of the fuzz targets are bytes, not files to read.
NOT_OURS = re.compile(r"(^|/)(__pycache__|tests/fuzz/corpus)/")

MAX_LINES = 800  # beyond this a file holds more than one class, algorithm or table
# Written in pieces, so that this file does not accuse itself. /proc/PID may stand before the third.
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


def bash_scripts(files):
    for _, file in files:
        with file.open("rb") as stream:
            if file.suffix != ".in" and re.match(rb"#!.*\b(ba)?sh\b|# shellcheck shell=bash$", stream.readline()):
                yield str(file)


def shell_problems(root, files):
    scripts = list(bash_scripts(files))
    result = subprocess.run(["shellcheck", "-x", *scripts], cwd=root, capture_output=True, text=True)
    return result.stdout.splitlines()[:60] if result.returncode else []


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    files = list(project_files(root))
    tap = Tap()
    tap.check("C and C++ are formatted as .clang-format says", format_problems(root, files))
    tap.check(f"no file has more than {MAX_LINES} lines",
              size_problems(files))
    tap.check("nothing is called after what it is not", name_problems(files))
    tap.check("every source file is listed in a meson.build", list(unlisted(root, files)))
    tap.check("no file names a machine or a package host", list(leaks(files)))
    tap.check("shell scripts pass shellcheck", shell_problems(root, files))
    tap.done()


main()
