#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""unwind_perf_agreement.py UPROBECTL SOURCES
Stacks of a C++ program (SOURCES: the folder fixtures/stacks) that `perf record --call-graph dwarf` has
taken: `uprobectl debug-unwind` finds the frames that `perf script` finds in the same bytes. Prints TAP."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import perf_data
import perf_stacks
from tap import Tap

MOST = 40  # stacks that are compared
NAME = "stacks that perf has taken have the frames that perf finds"


def own_frames(uprobectl, folder):
    done = subprocess.run([uprobectl, "debug-unwind", "--json", folder],
                          capture_output=True, text=True, timeout=120)
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr.strip()


def differences(ours, theirs):
    """What differs in one stack. Of names what stands before their arguments: those of templates and
    lambdas are written in more than one way."""
    if len(ours) != len(theirs):
        yield f"{len(ours)} frames, perf has {len(theirs)}"
    for index, (frame, (address, name, offset, file)) in enumerate(zip(ours, theirs)):
        own = frame["demangled"] or frame["symbol"] or ""
        location = (frame["file"], int(frame["module_address"], 16), int(frame["symbol_offset"] or "-1", 16))
        is_own = file.endswith("/deep_calls")  # in libraries a function may have several names
        if location != (file, address, offset) or (is_own and head(own) != head(name)):
            yield f"{index}: {own} at {location}, perf has {name} at {(file, address, offset)}"


def head(name):
    """Without a version and what stands in <>."""
    return name.split("@")[0].split("<")[0].split("(")[0]


def compare(tap, uprobectl, program, root):
    # Killed when perf has what it wants, which may take it a while.
    if why := perf_stacks.record([program, "60"], root, 1):
        tap.skip(NAME, f"perf cannot record here: {why.splitlines()[0]}")
        return
    theirs = perf_stacks.perf_frames(root)
    samples = list(perf_data.samples(root / "perf.data"))
    problems = [] if len(samples) >= MOST else [f"{len(samples)} samples"]
    deep = 0
    for number, sample in enumerate(samples[::max(1, len(samples) // MOST)]):
        folder = root / f"stack{number}"
        perf_stacks.write_stack(sample, root, folder)
        ours, why = own_frames(uprobectl, folder)
        found = list(differences(ours, theirs.get(sample.time_ns, [])))
        deep += len(ours) >= 20
        if found or not why.endswith("the stack ends here"):
            problems.append(f"{number}: {why}: {found[:2]}")
    if deep == 0:
        problems.append("no stack has twenty frames")
    tap.check(NAME, problems[:5])


def main():
    uprobectl, sources = str(Path(sys.argv[1]).resolve()), Path(sys.argv[2])
    tap = Tap()
    if os.uname().machine != "x86_64" or not shutil.which("perf"):
        tap.skip(NAME, "no perf on this machine" if os.uname().machine == "x86_64" else "for x86-64 alone")
        tap.done()
        return
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "deep_calls"
        subprocess.run(["g++", "-std=c++20", "-O2", "-fomit-frame-pointer", sources / "deep_calls.cpp",
                        "-o", program], check=True)
        compare(tap, uprobectl, program, Path(folder))
    tap.done()


main()
