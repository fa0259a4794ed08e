#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""saved_runs.py UPROBECTL
`uprobectl report` of the saved runs in saved-runs/, one by each version of the format since 7 (and of
each kind of run). Beside each is what its run printed with -j. Prints TAP."""

import json
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap

UPROBECTL = str(Path(sys.argv[1]).resolve())
FOLDER = Path(__file__).resolve().parent / "saved-runs"


def report(*options):
    """(lines of stdout, exit status)"""
    done = subprocess.run([UPROBECTL, "report", "-q", *map(str, options)], capture_output=True, text=True, timeout=60,
                          check=False)
    return done.stdout.splitlines(), done.returncode, done.stderr


def without_new_nulls(found, expected):
    """`found` without the keys that are null and that `expected` lacks: those of later versions."""
    if isinstance(found, dict) and isinstance(expected, dict):
        return {key: without_new_nulls(value, expected.get(key)) for key, value in found.items()
                if key in expected or value is not None}
    if isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        return [without_new_nulls(*pair) for pair in zip(found, expected)]
    return found


def is_same_record(line, expected):
    """Whether the keys are the same ones, in the same order, and have the same values."""
    record = json.loads(expected)
    return json.dumps(without_new_nulls(json.loads(line), record)) == json.dumps(record)


def differences(file):
    lines, status, said = report("-j", file)
    expected = file.with_suffix(".jsonl").read_text().splitlines()
    found = [f"exit status {status}: {said}"] if status != 0 else []
    found += [f"expected {wanted}\ninstead  {line}" for wanted, line in zip(expected, lines)
              if not is_same_record(line, wanted)]
    return found + ([f"{len(lines)} records instead of {len(expected)}"] if len(lines) != len(expected) else [])


def rows(lines):
    """What counts by values have, without the times."""
    keys = ("symbol", "kind", "count", "by", "measured", "sum", "average")
    records = [json.loads(line) for line in lines]
    return [[record[key] for key in keys] for record in records if record["type"] == "count"]


def by_values():
    """The kernel has counted in the run counts.uprobes what the events of calls.uprobes are, for `sell`."""
    counted = rows((FOLDER / "counts.jsonl").read_text().splitlines())
    for name in ("calls.uprobes", "graph.uprobes"):
        lines, status, said = report("-j", "--count", "--by", "buyer", "--measure", "count", FOLDER / name)
        if status != 0:
            yield f"{name}: exit status {status}: {said}"
        found = [row for row in rows(lines) if row[0] == "sell"]
        if found != counted:
            yield f"{name}: expected {counted}\ninstead {found}"


def by_result():
    """trade() was called with 2 and 300; sell() returned 6, -1, 900 and -1."""
    lines, _, said = report("-j", "--count", "--by", "ret", "--top", "1", FOLDER / "calls.uprobes")
    found = [(row[2], row[3][0]["value"]) for row in rows(lines)]
    if found != [(2, -1)]:
        yield f"{found}: {said}"


def by_values_of_nested_calls():
    """Of graph.uprobes: trade() was called with 2 and 300 and returned 5 and 899, the calls inside it of sell()
    with 2, 3, 300 and 301 returned 6, -1, 900 and -1. Only three calls took 20us."""
    results = [("sell", [-1], 2), ("sell", [6], 1), ("sell", [900], 1), ("trade", [5], 1), ("trade", [899], 1)]
    both = [("sell", [2, 6], 1), ("sell", [3, -1], 1), ("sell", [300, 900], 1), ("sell", [301, -1], 1),
            ("trade", [2, 5], 1), ("trade", [300, 899], 1)]
    long = [("sell", [2], 1), ("trade", [2], 1), ("trade", [300], 1)]
    for options, expected in ((["--by", "ret"], results), (["--by", "count,ret"], both),
                              (["--by", "count", "--min-latency", "20us"], long)):
        lines, _, said = report("-j", "--count", *options, FOLDER / "graph.uprobes")
        found = sorted((row[0], [value["value"] for value in row[3]], row[2]) for row in rows(lines))
        if found != expected:
            yield f"{options}: expected {expected}\ninstead {found} {said}"
    lines, _, said = report("-j", "--count", "--by", "count", "--measure", "ret", FOLDER / "graph.uprobes")
    found = sorted((row[0], row[3][0]["value"], row[5]) for row in rows(lines))
    sums = [("sell", 2, 6), ("sell", 3, -1), ("sell", 300, 900), ("sell", 301, -1), ("trade", 2, 5),
            ("trade", 300, 899)]
    if found != sums:
        yield f"sums: expected {sums}\ninstead {found} {said}"


def unknown_value():
    _, status, said = report("--count", "--by", "price", FOLDER / "calls.uprobes")
    expected = "--count cannot be answered from this run: no event has the value 'price'"
    if status != 1 or expected not in said:
        yield f"exit status {status}: {said}"


def condition_without_types():
    """Runs that were saved before values had types."""
    for condition, name in (("count > 1", "calls.uprobes"), ("when > 1", "records.uprobes")):
        lines, status, said = report("-j", "--if", condition, FOLDER / name)
        expected = "--if cannot be answered from this run: the types of its values were not saved"
        others = [line for line in lines if json.loads(line)["type"] != "error"]
        if status != 1 or others or expected not in said:
            yield f"{name}: exit status {status}: {others} {said}"


def records_without_types():
    """work_six() was called with 1 to 5; `when` is 1000 more, `step` the rest of a division by 4."""
    lines, _, said = report("--count", "--by", "step", "--measure", "when", FOLDER / "records.uprobes")
    expected = ["2\t2006\t1003\tFIRST\tsent", "1\t1004\t1004\t0\tsent", "1\t1003\t1003\tFIRST|SECOND\tsent",
                "1\t1002\t1002\tSECOND\tsent"]
    if sorted(lines) != sorted(expected):
        yield f"{lines} {said}"
    lines, _, said = report("--histogram", "--measure", "when", FOLDER / "records.uprobes")
    if not lines or not lines[0].startswith("sent\tvalue\t5\t1001\t"):
        yield f"{lines} {said}"


def no_stacks():
    """The program that sent the records has taken none."""
    for option in ("--folded", "--flamegraph"):
        lines, status, said = report(option, "-", FOLDER / "records.uprobes")
        expected = f"{option} cannot be answered from this run: its events have no stacks"
        if status != 1 or lines or expected not in said:
            yield f"{option}: exit status {status}: {lines} {said}"


def main():
    tap = Tap()
    files = sorted(FOLDER.glob("*.uprobes"))
    tap.check("there are runs to read", [] if len(files) == 4 else [str(files)])
    for file in files:
        tap.check(f"{file.name}: report prints what the run printed", differences(file))
    tap.check("events counted by values have the counts of the kernel", list(by_values()))
    tap.check("events are counted by their result", list(by_result()))
    tap.check("nested calls are counted by values of their entries and their returns",
              list(by_values_of_nested_calls()))
    tap.check("a condition needs the types of values", list(condition_without_types()))
    tap.check("records of a program are counted and measured without types", list(records_without_types()))
    tap.check("a value that no event has is refused", list(unknown_value()))
    tap.check("files of stacks are refused if no record has a stack", list(no_stacks()))
    tap.done()


if __name__ == "__main__":
    main()
