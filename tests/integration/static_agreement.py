#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The static probes of the fixtures, whose operands a compiler wrote for four machines: listed as
readelf has the notes, every operand understood but those in vector registers; and those that a
running process maps. Usage: static_agreement.py UPROBECTL FIXTURES; prints TAP."""

import json
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS), str(TESTS / "conformance")]
from segments import Segments
from static_probes import expected_probes, static_problems
from tap import Tap

POINTS = 10  # in fixtures/workload/probe_sites.c: order__start 5, guarded 2, three others


def listed(program, *arguments):
    result = subprocess.run([program, "usdt", "list", "--json", *arguments], capture_output=True,
                            text=True)
    return [json.loads(line) for line in result.stdout.splitlines()]


def operand_problems(records):
    kinds = [(argument["raw"], argument["kind"], r["name"])
             for r in records for argument in r["arguments"]]
    vector = [raw for raw, kind, name in kinds if kind == "out_of_reach" and name == "weigh"]
    return [f"{name}: {raw} is {kind}" for raw, kind, name in kinds
            if kind not in ("constant", "register", "memory") and raw not in vector] + \
        ([] if len(vector) == 1 else [f"one vector register is due, there are {vector}"])


def check_file(tap, program, file):
    if not file.exists():
        tap.skip(file.name, "no clang with lld to build it with")
        return
    expected = expected_probes(file, Segments(file.read_bytes()))
    records = listed(program, file)
    in_shop = [probe for probe in expected if "shop" in repr(probe)]
    problems = [] if len(in_shop) == POINTS else [f"readelf has {len(in_shop)} points"]
    tap.check(f"{file.name}: listed as readelf has them", problems + static_problems(records, expected))
    tap.check(f"{file.name}: the operands are understood", operand_problems(records))


def check_process(tap, program, fixtures):
    with subprocess.Popen([fixtures / "probes", "--wait"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as process:
        ready = process.stdout.readline()
        records = listed(program, "-p", str(process.pid), "*", "shop")
        process.stdin.write("\n")
        process.stdin.close()
        process.wait(timeout=30)
    own = [r for r in records if r.get("file") == str((fixtures / "probes").resolve())]
    tap.check("'*' lists those of the files that a process maps",
              [] if len(own) == POINTS else [f"after '{ready.strip()}': {records}"])


def main():
    program, fixtures = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    tap = Tap()
    names = ["probes", "libprobes.so", *(f"probes-{m}.so" for m in ("x86-64", "i386", "arm64", "arm"))]
    for name in names:
        check_file(tap, program, fixtures / name)
    check_process(tap, program, fixtures)
    tap.done()


main()
