#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The commands of docs/usdt.md that list static probes print what stands below them, "…" standing
for anything and a blank for any blanks. Usage: docs_usdt.py UPROBECTL PAGE FIXTURES; prints TAP."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap


def commands_of(page):
    """Each command of a console block that lists or verifies, and the lines below it."""
    for block in re.findall(r"^```console\n(.*?)^```", page, re.M | re.S):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, *lines = part.splitlines()
            if re.match(r"uprobectl (usdt list|resolve) ", command):
                yield command, lines


def pattern_of(line):
    words = [".*".join(map(re.escape, word.split("…"))) for word in line.split()]
    return r"\s+".join(words)


def problems(command, lines, folder, environment):
    result = subprocess.run(["sh", "-c", command], cwd=folder, env=environment,
                            capture_output=True, text=True)
    printed = result.stdout.splitlines()
    found = [f"ended with {result.returncode}: {result.stderr}"] if result.returncode else []
    if len(printed) != len(lines):
        found.append(f"printed {len(printed)} lines, the page has {len(lines)}:\n{result.stdout}")
    return found + [f"the page: {line}\nprinted: {got}" for line, got in zip(lines, printed)
                    if not re.fullmatch(pattern_of(line), got)]


def main():
    program, page, fixtures = (Path(argument).resolve() for argument in sys.argv[1:])
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "bin").mkdir()
        (Path(folder) / "bin/uprobectl").symlink_to(program)
        for name in ("probes", "probes.apk"):
            shutil.copy(fixtures / name, folder)
        environment = {**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}"}
        commands = list(commands_of(page.read_text()))
        tap.check("the page has commands", [] if commands else ["none was found"])
        for command, lines in commands:
            tap.check(command, problems(command, lines, folder, environment))
    tap.done()


main()
