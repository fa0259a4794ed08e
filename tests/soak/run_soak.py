#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The soak: workloads that count their own calls, beside runs of attach. Prints TAP; needs root.

    run_soak.py UPROBECTL FIXTURES [--seconds N] [--only NAME,…] [--figures FILE]

Each scenario (scenarios.py) has its own copies of the programs in a folder of its own. Events and losses are
the calls, to the last one; what a run takes reaches a plateau; nothing is left in the kernel, of files and of
processes.
"""

import argparse
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from argparse import Namespace
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "guest")]
import run_native_suite
from runs import Workspace, Problem
from scenarios import SCENARIOS, Findings
from tap import Tap

SECONDS_LEFT_TO_CLEAN_UP = 20
# The least that a scenario loads the machine, and what it takes besides.
LEAST_SECONDS, SECONDS_AROUND = 3, 1.7


def mount_for_ourselves():
    """A scenario fills a file system of its own, and leftovers are looked for in tracefs, which a machine need not
    have mounted: what is mounted is seen here only."""
    if os.environ.get("SOAK_MOUNTS") == "own":
        return
    script = 'mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null; SOAK_MOUNTS=own exec "$0" "$@"'
    os.execvp("unshare", ["unshare", "--mount", "sh", "-c", script, sys.executable, *sys.argv])


class Leftovers:
    """What this kernel holds of tracers, beyond what it did before (fixtures/workload/bpf_census.c), and processes
    that have our mark in their environment."""

    def __init__(self, census, suite):
        self.census, self.suite = census, suite
        os.environ["UPROBECTL_SUITE"] = str(suite)
        self.before = suite / "before"
        self.before.write_bytes(subprocess.run([census], stdout=subprocess.PIPE, check=True).stdout)

    def now(self):
        text = subprocess.run([self.census, self.before], stdout=subprocess.PIPE, check=True).stdout.decode()
        return {*text.splitlines(), *self.processes()}

    def processes(self):
        mark = f"UPROBECTL_SUITE={self.suite}".encode()
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (folder / "environ").read_bytes().split(b"\0") and int(folder.name) != os.getpid():
                    yield f"process {folder.name}: {(folder / 'comm').read_text().strip()}"
            except OSError:
                pass  # has ended

    def problems(self):
        """The kernel frees BPF objects a while after their process has ended, and other tracers come and go."""
        left = self.now()
        deadline = time.monotonic() + SECONDS_LEFT_TO_CLEAN_UP
        while left and time.monotonic() < deadline:
            time.sleep(0.1)
            left &= self.now()
        return sorted(f"left: {each}" for each in left)


def listed_probes(work):
    """Nobody else probes our copies."""
    listed = subprocess.run([work.uprobectl, "list-probes", "-j"], stdin=subprocess.DEVNULL, capture_output=True,
                            text=True, check=False).stdout
    return [f"list-probes: {line}" for line in listed.splitlines() if str(work.folder) in line]


def run_scenario(scenario, work, seconds, leftovers):
    findings = Findings()
    try:
        scenario(work, seconds, findings)
    except Problem as problem:
        findings.problems.append(str(problem))
    except Exception:  # the others run all the same
        findings.problems.append(traceback.format_exc())
    finally:
        work.end_started()
    findings.problems += leftovers.problems() + listed_probes(work) + work.left_files()
    return findings


def table_of(rows):
    """The figures, as docs/design/soak.md has them."""
    def row(name, hits, lost, memory, descriptors, cpu):
        return "| " + " | ".join([
            name, f"{hits:,}", "" if lost is None else f"{lost:,}", f"{cpu / hits * 1e6:.1f}" if hits else "",
            "" if memory is None else f"{memory / (1 << 20):.0f}", "" if descriptors is None else str(descriptors)]) + " |"
    return "\n".join(["| run | hits | lost | CPU, us a hit | memory, MiB | descriptors |", "|---|---|---|---|---|---|",
                      *(row(*each) for each in rows)])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("uprobectl", type=Path)
    parser.add_argument("fixtures", type=Path)
    parser.add_argument("--seconds", type=float, default=120, help="of all scenarios together (default 120)")
    parser.add_argument("--only", default="", metavar="NAME,…", help="these scenarios")
    parser.add_argument("--figures", type=Path, metavar="FILE", help="write a table of figures")
    options = parser.parse_args()
    uprobectl, fixtures = options.uprobectl.resolve(), options.fixtures.resolve()
    if os.geteuid() != 0:
        print("1..0 # SKIP not root")
        return
    if reason := run_native_suite.why_unusable(Namespace(bin=uprobectl, fixtures=fixtures)):
        print(f"1..0 # SKIP machine uprobes unusable: {reason}")
        return
    mount_for_ourselves()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # nothing that was started is left
    chosen = [each for each in SCENARIOS if not options.only or each.__name__ in options.only.split(",")]
    programs = [fixtures / "libsoak.so", *sorted(fixtures.glob("soak-*"))]
    tap, rows = Tap(), []
    with tempfile.TemporaryDirectory(prefix="uprobectl-soak-") as name:
        leftovers = Leftovers(fixtures / "bpf-census", Path(name))
        started = time.monotonic()
        for number, scenario in enumerate(chosen):
            work = Workspace(Path(name) / scenario.__name__, uprobectl, programs, name)
            left = (started + options.seconds - time.monotonic()) / (len(chosen) - number)
            findings = run_scenario(scenario, work, max(LEAST_SECONDS, left - SECONDS_AROUND), leftovers)
            said = scenario.__doc__.strip().rstrip(".")
            tap.check(said, findings.problems)
            for text in findings.notes:
                print("# " + text.replace("\n", "\n#   "), flush=True)
            rows += findings.rows
            shutil.rmtree(work.folder)
    tap.done()
    if options.figures:
        processor = re.search(r"(?m)^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text())
        options.figures.write_text(f"{processor[1] if processor else platform.machine()}, Linux {platform.release()}, "
                                   f"{options.seconds:g} s\n\n{table_of(rows)}\n")


main()
