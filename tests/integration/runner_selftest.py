#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests run_cli_tests.py on commands that every system has: one file of cases that all hold, one of
cases that must all fail. Prints TAP."""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from cli_cases import FormatError, parse
from tap import Tap


def verdicts(name):
    command = [sys.executable, HERE / "run_cli_tests.py", "--bin", "/bin/echo",
               HERE / "runner_selftest" / f"{name}.test"]
    result = subprocess.run(command, capture_output=True, text=True)
    return [line for line in result.stdout.splitlines() if not line.startswith("#")]


def refused(text):
    try:
        parse(text)
    except FormatError:
        return True
    return False


def main():
    tap = Tap()
    holds, fails = verdicts("holds"), verdicts("fails")
    skipped = [line for line in holds if "# SKIP no program 'no-such-program'" in line]
    tap.check("sound cases hold", [line for line in holds if line.startswith("not ok")])
    tap.check("the one case that lacks something says so", [] if len(skipped) == 1 else holds)
    tap.check("no unsound case passes", [line for line in fails if line.startswith("ok")])
    for name, lines in (("holds", holds), ("fails", fails)):
        cases = parse((HERE / "runner_selftest" / f"{name}.test").read_text())
        tap.check(f"no case of {name} is lost", [] if lines[-1:] == [f"1..{len(cases)}"] else lines)
    for name, text in {"no heading": "$ true\n", "no command": "=== a\nexit: 1\n",
                       "no such keyword": "=== a\n$ true\nextra: 1\n",
                       "no number": "=== a\n$ true\nexit: x\n",
                       "no command before a block": "=== a\nstdout:\n  x\n$ true\n"}.items():
        tap.check(f"a file with {name} is refused", [] if refused(text) else ["it was taken"])
    tap.done()


main()
