#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""damaged_programs.py UPROBECTL FIXTURES [ROUNDS]
Damaged copies of BPF objects, given to the kernel: each is refused with one error, or runs in a program that the test
starts; nothing crashes, no run takes long, and nothing stays attached. Needs root. Prints TAP."""

import os
import random
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent.parent), str(Path(__file__).resolve().parent.parent / "integration")]
from scarce_resources import VAGUE, mutated, sections_of
from tap import Tap

SECONDS = 30
MEMORY = 512 << 20
OBJECTS = {"whole.bpf.o": ["--map", "counts"], "results.bpf.o": [], "rings.bpf.o": [], "stacks.bpf.o": [], "latency.bpf.o": []}


def with_damaged_code(data, chances):
    """Some bytes of the instructions of programs."""
    changed = bytearray(data)
    locations = [part for name, part in sections_of(data).items()
              if part[1] and name.lstrip("?").startswith(("uprobe", "uretprobe", ".text"))]
    for _ in range(chances.choice((1, 1, 2, 4))):
        offset, size = chances.choice(locations)
        changed[offset + chances.randrange(size)] = chances.getrandbits(8)
    return bytes(changed)


def attach(uprobectl, file, workload, *options):
    return subprocess.run(
        [uprobectl, "attach", "-d", "5s", "--object", file, *options, workload, "work_six", "--", workload, "--calls", "3"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=SECONDS, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)))


def problems_of(done, what):
    said = done.stderr.decode(errors="replace")
    errors = [line for line in said.splitlines() if line.startswith("uprobectl: error: ")]
    if done.returncode not in (0, 1) or any(word in said for word in VAGUE):
        return [f"{what}: status {done.returncode}: {said[:500]}"]
    # A run that has lost records ends with 1, too.
    if done.returncode == 1 and len(errors) != 1 and " events in " not in said:
        return [f"{what}: {len(errors)} errors: {said[:500]}"]
    return []


def main():
    tap = Tap()
    if os.geteuid() != 0:
        tap.skip("damaged programs", "only root attaches")
        tap.done()
        return
    uprobectl, fixtures = str(Path(sys.argv[1]).resolve()), Path(sys.argv[2]).resolve()
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 40
    workload = str(fixtures / "workload")
    for name, options in OBJECTS.items():
        chances = random.Random(name)
        data = (fixtures / name).read_bytes()
        found, refused = [], 0
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "damaged.bpf.o"
            for number in range(rounds):
                file.write_bytes((with_damaged_code if number % 2 else mutated)(data, chances))
                done = attach(uprobectl, str(file), workload, *options)
                refused += done.returncode == 1
                found += problems_of(done, f"copy {number}")
        found += [] if refused > rounds // 4 else [f"only {refused} of {rounds} were refused"]
        tap.check(f"{name}: {rounds} damaged copies are refused with one error, or run", found[:5])
    done = attach(uprobectl, str(fixtures / "whole.bpf.o"), workload, "--map", "counts", "-j")
    said = done.stdout.decode()
    counted = [line for line in said.splitlines() if '"map":"counts"' in line and '"key":0,"value":3,' in line]
    tap.check("afterwards the whole object counts each call", [] if len(counted) == 1 else [said + done.stderr.decode()])
    tap.done()


main()
