#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs instruction-forms here or in a guest, and compares the results with instruction_forms.md; TAP.

Usage: run_instruction_forms.py PROGRAM DOCUMENT [--series 6.12 --cache DIR [--arch arm64] [--cpu MODEL]] [--every N]

Each kind of instruction in the output is a row of the document's table for the architecture, each kernel on
a processor a column. A cell has three numbers: refused, wrong, same. Where a run found some, some column must
have some, too. Where it has as many forms as the column of its kernel and vendor (the same processor, all
forms) they must be equal.
"""

import argparse
import io
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(TOP / "tools"), str(TOP / "tests" / "guest")]

from guest_runner import GuestError  # noqa: E402  (the path above comes first)
from guest_runner.architecture import ARCHITECTURES  # noqa: E402
from guest_runner.boot import GuestRun, patience, run_guest  # noqa: E402
from guest_runner.packages import fetch_kernel  # noqa: E402
from run_guest_suite import find_busybox, skip  # noqa: E402

FIRST_COLUMN = "what uprobectl says"
HEADINGS = {"x86_64": "## x86-64", "aarch64": "## arm64"}
# Seconds for the run on this machine, which takes some 15; before the test itself is ended.
HERE_TIMEOUT = 240
VERDICTS = ("refused", "wrong", "same")

Counts = tuple[int, int, int]


@dataclass
class Run:
    series: str = ""
    machine: str = ""
    processor: str = ""
    kinds: dict[str, Counts] = field(default_factory=dict)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=Path)
    parser.add_argument("document", type=Path)
    parser.add_argument("--every", type=int, metavar="N", help="every Nth of the systematic forms")
    parser.add_argument("--series", help="in a guest with this kernel")
    parser.add_argument("--arch", choices=ARCHITECTURES, default="amd64")
    parser.add_argument("--cpu", default="", metavar="MODEL", help="QEMU's -cpu")
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--timeout", type=float, default=560, metavar="SECONDS")
    options = parser.parse_args()
    arguments = [str(options.every)] if options.every else []
    try:
        output = in_guest(options, arguments) if options.series else here(options.program, arguments)
    except GuestError as error:
        print("\n".join(f"# {line}" for line in str(error).splitlines()))
        print("Bail out! the guest failed")
        return 0
    if output is None:
        return 0
    tests = 0
    for line in output.splitlines():
        tests += re.match(r"(not )?ok ", line) is not None
        if re.match(r"1\.\.0|Bail out!", line):
            print(line)
            return 0
        if not line.startswith("1.."):
            print(line)
    faults = differences(parse_run(output), options.document.read_text())
    for fault in faults:
        print(f"# {fault}")
    print(f"{'not ' if faults else ''}ok {tests + 1} - {options.document.name} has each kind with these results")
    print(f"1..{tests + 1}")
    return 0


def here(program: Path, arguments: list[str]) -> str:
    with subprocess.Popen([program, *arguments], stdout=subprocess.PIPE, text=True) as run:
        try:
            return run.communicate(timeout=HERE_TIMEOUT * patience())[0]
        except subprocess.TimeoutExpired:
            print("\n".join(f"# {line}" for line in describe_processes(run.pid)), flush=True)
            run.kill()
            return run.communicate()[0] + "not ok - ended for want of time\n"


def describe_processes(parent: int) -> list[str]:
    """Where the program and its children wait."""
    lines = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
            if int(folder.name) != parent and int(fields[1]) != parent:
                continue
            lines += [f"{folder.name}: state {fields[0]}, in {(folder / 'wchan').read_text()}"]
            lines += (folder / "stack").read_text().splitlines()
        except OSError:
            continue
    return lines


def in_guest(options: argparse.Namespace, arguments: list[str]) -> str | None:
    if shutil.which(ARCHITECTURES[options.arch].qemu) is None:
        skip(f"no program '{ARCHITECTURES[options.arch].qemu}'")
        return None
    try:
        kernel = fetch_kernel(options.arch, options.series, options.cache)
        busybox = find_busybox(options.arch, options.cache)
    except GuestError as error:
        skip(f"no Linux {options.series} for {options.arch}: {error}")
        return None
    output = io.BytesIO()
    run_guest(GuestRun(arch=options.arch, kernel=kernel, busybox=busybox, cpu=options.cpu, timeout=options.timeout,
                       command=["/bin/instruction-forms", *arguments],
                       files=[(options.program, "/bin/instruction-forms")]), output)
    return output.getvalue().decode(errors="replace").replace("\r", "")


def parse_run(output: str) -> Run:
    run = Run()
    for line in output.splitlines():
        if kernel := re.match(r"# Linux (\d+\.\d+)\S* (\S+), (.+)$", line):
            run.series, run.machine, run.processor = kernel.groups()
        if row := re.match(r"# +\d+ +(\d+) +(\d+) +(\d+)  (.*?) \| ", line):
            run.kinds[row.group(4)] = (int(row.group(1)), int(row.group(2)), int(row.group(3)))
    return run


def table(document: str, heading: str) -> dict[str, dict[str, Counts]]:
    """The counts by column header and kind."""
    section = document.split(f"\n{heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [[cell.strip() for cell in line.strip("|").split("|")]
             for line in section.splitlines() if line.startswith("|")]
    start = next(i for i, cells in enumerate(lines) if cells[0] == FIRST_COLUMN)
    columns: dict[str, dict[str, Counts]] = {header: {} for header in lines[start][2:]}
    for cells in lines[start + 2:]:
        for header, cell in zip(columns, cells[2:], strict=True):
            numbers = [int(number.replace(",", "")) for number in cell.split("/")] if cell != "-" else [0, 0, 0]
            columns[header][cells[0]] = (numbers[0], numbers[1], numbers[2])
    return columns


def differences(run: Run, document: str) -> list[str]:
    if not run.kinds:
        return ["the program has printed no table"]
    columns = table(document, HEADINGS[run.machine])
    faults = []
    for kind, counts in run.kinds.items():
        said = [rows[kind] for rows in columns.values() if kind in rows]
        if not said:
            faults.append(f"no row '{kind}'")
        faults.extend(f"'{kind}': {counts[i]} {verdict}, which the document does not know"
                      for i, verdict in enumerate(VERDICTS) if said and counts[i] > 0 and all(one[i] == 0 for one in said))
    for header, rows in columns.items():
        same_column = re.match(rf"{re.escape(run.series)}, {re.escape(run.processor)}\b", header) is not None
        if not same_column or total(rows) != total(run.kinds):
            continue
        faults.extend(f"'{kind}' on {header}: {counts} in the document, {run.kinds.get(kind)} found"
                      for kind, counts in rows.items() if counts != run.kinds.get(kind, (0, 0, 0)))
    return faults


def total(kinds: dict[str, Counts]) -> int:
    return sum(map(sum, kinds.values()))


if __name__ == "__main__":
    sys.exit(main())
