# SPDX-License-Identifier: Apache-2.0
"""The Test Anything Protocol as our Python tests print it: one line per case, the reason of a
failure as comment lines after it, the plan at the end. tools/test_report.py reads it back."""

import sys


class Tap:
    def __init__(self):
        self.number = 0
        self.failed = 0

    def _print(self, verdict, name, suffix=""):
        self.number += 1
        name = name.replace("#", "_")  # '#' begins a directive
        print(f"{verdict} {self.number} - {name}{suffix}", flush=True)

    def ok(self, name):
        self._print("ok", name)

    def skip(self, name, reason):
        self._print("ok", name, f" # SKIP {reason}")

    def fail(self, name, why):
        """why: text of any length, one comment line per line of it."""
        self.failed += 1
        self._print("not ok", name)
        for line in str(why).splitlines():
            print(f"# {line}")
        sys.stdout.flush()

    def check(self, name, problems):
        """One case that holds when the list of problems is empty."""
        if problems:
            self.fail(name, "\n".join(map(str, problems)))
        else:
            self.ok(name)

    def done(self):
        """Prints the plan. The exit status stays 0: the lines say what failed."""
        print(f"1..{self.number}", flush=True)
