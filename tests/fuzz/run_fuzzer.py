#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs one fuzz target: first the saved inputs, then a search for new ones. Prints TAP.

  run_fuzzer.py PROGRAM NAME [--replay] [--line TEXT]… [SEED…]
                         --replay: only the saved inputs
                         UPROBECTL_FUZZ_SECONDS says how long to search (default 10)
  run_fuzzer.py --list   the names of the targets beside this file, in the order of the modules they need

Saved inputs are the files in corpus/NAME/; an input that once crashed a target is added there. The
seeds are files made by the build, where a search starts too: as they are, or after each of the
lines. An optional corpus/NAME.dict holds words of the format. What the search finds is thrown away,
unless it crashes: then the input is printed (base64), so that it can be had from the log of another
machine.
"""

import argparse
import base64
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from tap import Tap

LIMITS = ["-rss_limit_mb=2048", "-timeout=10", "-malloc_limit_mb=1024"]


def run(program, name, arguments, artifacts, seconds):
    environment = {**os.environ, "FUZZ_TARGET": name, "ASAN_OPTIONS": "detect_leaks=1:allocator_may_return_null=1",
                   "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"}
    command = [program, *LIMITS, f"-artifact_prefix={artifacts}/", *map(str, arguments)]
    try:
        result = subprocess.run(command, capture_output=True, env=environment, timeout=seconds)
    except subprocess.TimeoutExpired:
        return False, f"did not end after {seconds} s"
    return result.returncode == 0, result.stderr.decode(errors="replace")


def failure(log, artifacts):
    """The end of the log, from the report on, and the input that caused it."""
    start = re.search(r"^.*(ERROR:|runtime error:|SUMMARY:|libFuzzer: )", log, re.MULTILINE)
    text = log[start.start():][:5000] if start else log[-3000:]
    for artifact in sorted(Path(artifacts).iterdir()):
        data = artifact.read_bytes()
        text += f"\n{artifact.name}, {len(data)} bytes, base64: {base64.b64encode(data[:3000]).decode()}"
    return text


def saved_inputs(name):
    folder = HERE / "corpus" / name
    return sorted(f for f in folder.rglob("*") if f.is_file()) if folder.is_dir() else []


def target_names():
    """In the order of the modules that they need, as src/modules.toml lists them. Neighbours are compiled
    together, and the linker then reads what any of them needs: that is least if they need the same."""
    modules = list(tomllib.loads((HERE.parent.parent / "src/modules.toml").read_text()))

    def order(file):
        includes = re.findall(r'^#include "(?:uprobectl/)?(\w+)', file.read_text(), re.MULTILINE)
        return max(modules.index(name) for name in includes if name in modules), file.name

    files = sorted(HERE.glob("*_fuzzer.cpp"), key=order)
    return [file.name.removesuffix("_fuzzer.cpp") for file in files]


def write_seeds(files, lines, folder):
    """The seeds as inputs in the folder; returns their paths."""
    inputs = []
    for file in files:
        for prefix in [line.encode() + b"\n" for line in lines] or [b""]:
            inputs.append(Path(folder, f"{file.name}-{len(inputs)}"))
            inputs[-1].write_bytes(prefix + file.read_bytes())
    return inputs


def main():
    if sys.argv[1] == "--list":
        print(*target_names())
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("name")
    parser.add_argument("--replay", action="store_true")
    parser.add_argument("--line", action="append", default=[])
    parser.add_argument("seeds", nargs="*", type=Path)
    options = parser.parse_intermixed_args()
    program, name = options.program, options.name
    seconds = int(os.environ.get("UPROBECTL_FUZZ_SECONDS", "10"))
    saved = saved_inputs(name)
    tap = Tap()
    with tempfile.TemporaryDirectory() as artifacts, tempfile.TemporaryDirectory() as found:
        known = saved + write_seeds(options.seeds, options.line, found)
        if known:
            ok, log = run(program, name, known, artifacts, 120)
            tap.check(f"{name}: {len(known)} saved inputs", [] if ok else [failure(log, artifacts)])
        if options.replay:
            tap.done()
            return
        words = HERE / "corpus" / f"{name}.dict"
        # Functions that are reached for the first time are not printed: symbolizing them takes the search's time.
        search = [f"-max_total_time={seconds}", "-max_len=65536", "-print_final_stats=1", "-print_funcs=0", found]
        search += [f"-dict={words}"] if words.exists() else []
        search += [HERE / "corpus" / name] if saved else []
        ok, log = run(program, name, search, artifacts, seconds + 60)
        executed = re.search(r"number_of_executed_units:\s*(\d+)", log)
        tap.check(f"{name}: a search of {seconds} s finds no new fault",
                  [] if ok else [failure(log, artifacts)])
        if executed:
            print(f"# {executed[1]} inputs tried")
    tap.done()


main()
