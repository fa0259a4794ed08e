#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs_commands.py UPROBECTL SOURCE_ROOT
Each command of uprobectl in a code block of README.md and docs/*.md is one that the program accepts: it
does not end with 2, the status of an invalid command line. It runs without privileges, files, devices
and adb, so most end with another failure; what they print is tested by the docs scenarios. Prints
TAP."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap

NOBODY = 65534
USAGE = 2
ENDS = {"|", "||", "&&", ";", "&", ">", ">>", "<", "2>", "2>&1", ")"}


def simple_commands(text):
    """The words of each uprobectl command in a line for a shell."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars="|&;<>()")
    lexer.whitespace_split = True
    lexer.commenters = "#"
    words = list(lexer)
    for at, word in enumerate(words):
        if word != "uprobectl" or (at > 0 and words[at - 1] not in ENDS | {"sudo", "(", "time"} and "=" not in words[at - 1]):
            continue
        rest = words[at + 1:]
        end = next((i for i, each in enumerate(rest) if set(each) <= set("|&;<>()")), len(rest))
        if end > 0 and end < len(rest) and rest[end].startswith(">") and rest[end - 1] == "2":
            end -= 1
        yield rest[:end]


def lines_of(page):
    page = re.sub(r"\$\([^()]*\)", "1", page)  # what a command prints is mostly a number
    fenced = r"^```(\w*)\n(.*?)^```\n"
    for language, block in re.findall(fenced, page, re.M | re.S):
        if language not in ("sh", "console", "bash", "shell"):
            continue
        lines = block.replace("\\\n", " ").splitlines()
        yield from (line[2:] for line in lines if line.startswith("$ ")) if language == "console" else lines
    for block in re.findall(r"(?:^    .*\n)+", re.sub(fenced, "", page, flags=re.M | re.S), re.M):
        lines = [line.strip() for line in block.replace("\\\n", " ").splitlines()]
        shown = [line[2:] for line in lines if line.startswith("$ ")]
        yield from shown or lines


def commands_of(page):
    for line in lines_of(page):
        try:
            yield from simple_commands(line)
        except ValueError:  # a quote that goes on in the next line
            continue


def refused(program, words, environment, folder):
    """What the program says of the command line, if that is invalid."""
    drop = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.getuid() == 0 else {}
    try:
        done = subprocess.run([program, *words], env=environment, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=5, check=False, **drop)
    except subprocess.TimeoutExpired:
        return []  # it waits for a process, say
    return [f"{shlex.join(words)}: {done.stderr}"] if done.returncode == USAGE else []


def main():
    source = Path(sys.argv[2])
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        program = Path(folder) / "uprobectl"
        shutil.copy(sys.argv[1], program)
        program.chmod(0o755)
        environment = {"PATH": folder, "HOME": folder}
        total = 0
        for page in [source / "README.md", *sorted((source / "docs").rglob("*.md"))]:
            commands = list(commands_of(page.read_text(encoding="utf-8")))
            problems = [problem for words in commands for problem in refused(program, words, environment, folder)]
            total += len(commands)
            if commands:
                tap.check(f"the {len(commands)} commands of {page.relative_to(source)} are accepted", problems)
        tap.check("the pages have commands", [] if total > 100 else [f"only {total} were found"])
    tap.done()


main()
