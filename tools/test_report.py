#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The end of tools/test: what failed, what took how long, what was skipped, and the totals.

    test_report.py --phases FILE --expected-skips FILE LABEL=MESON_LOG.json…

Counts single cases: every line of a test that speaks TAP; one for a test that does not. Ends with
status 1 when a case failed, a phase failed, a log is missing or empty, or a skip is not expected.
"""

import argparse
import fnmatch
import json
import re
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

# Seconds on two cores, per group of phases; several run at the same time.
BUDGETS = {"install": 200, "builds": 540, "unit": 500, "tidy": 240, "fuzz": 180, "native": 700, "guests": 900, "soak": 180}
TOGETHER = 2100
TITLES = {"unit": "unit and sanitizers", "native": "attach on this machine"}
# Of each failing case: enough to see the cause, not so much that the rest is lost.
MOST_LINES, MOST_FAILURES = 60, 40
# Exit statuses of timeout(1): asked to end, and killed.
OUT_OF_TIME = {124, 137}

TAP_CASE = re.compile(r"(not )?ok\b\s*(\d+)?\s*-?\s*([^#]*?)\s*(?:#\s*(SKIP\S*|TODO)\b\s*(.*))?$",
                      re.IGNORECASE)
TAP_PLAN = re.compile(r"1\.\.(\d+)(?:\s*#\s*SKIP\S*\s*(.*))?$", re.IGNORECASE)


@dataclass
class Outcome:
    name: str
    verdict: str  # passed, failed, skipped
    text: str = ""  # why it failed or was skipped


def tap_cases(test, output):
    """The cases of one TAP stream, each with the comment lines after it."""
    planned = None
    cases = []
    for line in output.splitlines():
        if match := TAP_CASE.match(line):
            name = f"{test}: {match[3]}"
            if match[4] and match[4].upper().startswith("SKIP") and not match[1]:
                cases.append(Outcome(name, "skipped", match[5].strip()))
            else:
                cases.append(Outcome(name, "failed" if match[1] else "passed"))
        elif match := TAP_PLAN.match(line):
            planned = int(match[1])
            if planned == 0:
                cases.append(Outcome(test, "skipped", (match[2] or "").strip()))
                planned = 1
        elif cases and cases[-1].verdict == "failed":
            cases[-1].text += line.removeprefix("# ") + "\n"
    if planned != len(cases):
        cases.append(Outcome(f"{test}: all its cases ran", "failed",
                             f"{planned} planned, {len(cases)} seen; the output ends with:\n"
                             + "\n".join(output.splitlines()[-30:])))
    return cases


def outcomes_of(label, test):
    """The cases of one test in a Meson log."""
    name = f"{label}: {test['name'].split(' / ')[-1]}"
    output, errors = test.get("stdout") or "", test.get("stderr") or ""
    speaks_tap = any(TAP_PLAN.match(l) or re.match(r"(not )?ok \d", l) for l in output.splitlines())
    if test["result"] == "SKIP" and not speaks_tap:
        reason = (output.strip() or errors.strip() or "no reason given").splitlines()[-1]
        return [Outcome(name, "skipped", reason)]
    cases = tap_cases(name, output) if speaks_tap else []
    good = test["result"] in {"OK", "SKIP", "EXPECTEDFAIL"}
    if not good and not any(c.verdict == "failed" for c in cases):
        why = f"{test['result']}, exit status {test['returncode']}\n{output[-3000:]}\n{errors[-3000:]}"
        cases.append(Outcome(f"{name}: ends well", "failed", why))
    elif not good and errors:
        next(c for c in cases if c.verdict == "failed").text += f"stderr:\n{errors[-2000:]}"
    return cases or [Outcome(name, "passed")]


def outcomes_of_log(label, path):
    tests = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    if not tests:
        return [Outcome(f"{label}: has tests", "failed", f"no test ran (see {path.parent})")]
    return [outcome for test in tests for outcome in outcomes_of(label, test)]


def read_phases(path):
    for line in path.read_text().splitlines():
        budget, name, start, end, status = line.split("\t")
        yield budget, name, (float(start), float(end)), int(status)


def seconds_of(spans):
    """The time that they take together: what ran at the same time counts once."""
    total, reached = 0.0, 0.0
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total


def print_failures(failures):
    for failure in failures[:MOST_FAILURES]:
        print(f"\nFAILED {failure.name}")
        lines = failure.text.strip().splitlines()
        for line in lines[:MOST_LINES]:
            print(f"    {line}")
        if len(lines) > MOST_LINES:
            print(f"    ... {len(lines) - MOST_LINES} lines more")
    if len(failures) > MOST_FAILURES:
        print(f"\n... and {len(failures) - MOST_FAILURES} failures more")


def print_budget(phases):
    print(f"\n{'seconds':>9} {'budget':>7}  phase")
    for group, budget in BUDGETS.items():
        members = [(name, span) for member, name, span, _ in phases if member == group]
        if not members:
            continue
        spent = seconds_of(span for _, span in members)
        over = "  OVER BUDGET" if spent > budget else ""
        print(f"{spent:9.1f} {budget:7}  {TITLES.get(group, group)}{over}")
        if len(members) > 1:
            for name, (start, end) in members:
                print(f"{'':17}    {name}: {end - start:.1f}")
    together = seconds_of(span for _, _, span, _ in phases)
    print(f"{together:9.1f} {TOGETHER:7}  together{'  OVER BUDGET' if together > TOGETHER else ''}")


def print_skips(skips, expected):
    """Prints every skip once per reason; returns those that nobody expects."""
    unexpected = []
    for skip in skips:
        if not any(fnmatch.fnmatchcase(skip.name, test) and fnmatch.fnmatchcase(skip.text, reason)
                   for test, reason in expected):
            unexpected.append(skip)
    counts = Counter((skip.text, skip.name.split(": ")[0], skip in unexpected) for skip in skips)
    print("\nskipped:" if skips else "\nnothing skipped")
    for (reason, label, bad), count in counts.items():
        print(f"{count:9}  {label}: {reason}{'  UNEXPECTED' if bad else ''}")
    for skip in unexpected:
        print(f"UNEXPECTED SKIP {skip.name}: {skip.text}")
    return unexpected


def read_expected(path):
    lines = [l for l in path.read_text().splitlines() if l.strip() and not l.startswith("#")]
    return [tuple(line.split("\t", 1)) for line in lines]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--phases", type=Path, required=True)
    parser.add_argument("--expected-skips", type=Path, required=True)
    parser.add_argument("logs", nargs="*", metavar="LABEL=LOG")
    options = parser.parse_args()

    phases = list(read_phases(options.phases))
    outcomes = []
    for log in options.logs:
        label, _, path = log.partition("=")
        outcomes += outcomes_of_log(label, Path(path))
    # Without its tests a failed phase (install, build) has only itself to report; so has one that was
    # ended before all its tests ran.
    tested = {log.partition("=")[0] for log in options.logs}
    outcomes += [Outcome(name, "failed", "no time was left" if status in OUT_OF_TIME else f"exit status {status}")
                 for _, name, _, status in phases
                 if status in OUT_OF_TIME or (status and name not in tested)]

    counts = Counter(outcome.verdict for outcome in outcomes)
    print_failures([o for o in outcomes if o.verdict == "failed"])
    print_budget(phases)
    unexpected = print_skips([o for o in outcomes if o.verdict == "skipped"],
                             read_expected(options.expected_skips))
    print(f"\n{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    sys.exit(1 if counts["failed"] or unexpected else 0)


main()
