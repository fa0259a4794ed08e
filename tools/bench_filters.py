#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a hit costs that --if rejects: a million calls, one of which matches, beside an empty program and
bpftrace's predicates, in turn; as root.

    tools/bench_filters.py [--binary build/src/cli/uprobectl] [--calls 1000000] [--rounds 5]

Prints for each filter the median nanoseconds a call takes in the probed program, and of them those in the
BPF program by the kernel's own statistics; and the ratio to the integer filter.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from bench_cost import make_empty, program_runs, statistics_enabled
from bench_target import Failed, Target, Tracer

PROGRAM = """
#include <stdio.h>
#include <time.h>
__attribute__((noinline)) long hot(long number, const char* text) {
  __asm__ volatile("" ::"r"(text) : "memory");
  return number;
}
static const char* const texts[] = {"/usr/share/zoneinfo/Europe/Berlin", "/proc/self/status",
                                    "/usr/lib/x86_64-linux-gnu/libc.so.6", "relative/name.txt"};
static long now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000L + t.tv_nsec;
}
int main(void) {
  char line[64];
  long calls;
  puts("ready");
  fflush(stdout);
  while (fgets(line, sizeof line, stdin) && sscanf(line, "exactly %ld", &calls) == 1) {
    const long begin = now();
    for (long i = 0; i < calls; i++) hot(i, i == calls / 2 ? "/etc/wanted.conf" : texts[i & 3]);
    printf("took %ld\\n", now() - begin);
    fflush(stdout);
  }
  return 0;
}
"""

OURS = {
    "integer": ["--if", "arg0 == 500000"],
    "text ==": ["--if", 'arg1 == "/etc/wanted.conf"'],
    "text ^=": ["--if", "arg1 ^= /etc/"],
    "text $=": ["--if", "arg1 $= .conf"],
    "text *=": ["--if", "arg1 *= wanted"],
    "text ~": ["--if", "arg1 ~ /*/wanted.*"],
    "text in": ["--if", 'arg1 in {"/etc/wanted.conf","/usr/wanted"}'],
    "thread": ["--if", "thread == other"],
    "caller": ["--if", "caller == other_function"],
}
THEIRS = {
    "bpftrace integer": "/arg0 == 500000/",
    "bpftrace text ==": '/str(arg1) == "/etc/wanted.conf"/',
    "bpftrace text ^=": '/strncmp(str(arg1), "/etc/", 5) == 0/',
}


def tools(options, path, empty):
    attach = [options.binary, "attach", "-d", "5m", "-p", "PID"]
    yield "empty", [*attach, "--object", empty, "--program-name", "entry", path, "hot"], "probing"
    for name, condition in OURS.items():
        yield name, [*attach, *condition, path, "hot"], "probing"
    if bpftrace := shutil.which("bpftrace"):
        for name, predicate in THEIRS.items():
            script = f'BEGIN {{ printf("ready\\n"); }} uprobe:{path}:hot {predicate} {{ printf("hit\\n"); }}'
            yield name, [bpftrace, "-p", "PID", "-e", script], "ready"


def measure(argv, ready, path, calls):
    """Nanoseconds a call, and of them those in BPF programs."""
    with Target(path) as target, Tracer(argv, ready, target) as tracer:
        for _ in range(50):  # bpftrace says that it is ready before it has attached
            target.ask("exactly 10000")
            if sum(runs for runs, _ in program_runs(tracer.process.pid).values()) > 0:
                break
        before = program_runs(tracer.process.pid)
        took = target.ask(f"exactly {calls}")
        after = program_runs(tracer.process.pid)
    runs = sum(after[each][0] - before.get(each, (0, 0))[0] for each in after)
    if runs != calls:
        raise Failed(f"{argv[0]}: {runs} runs of programs for {calls} calls")
    spent = sum(after[each][1] - before.get(each, (0, 0))[1] for each in after)
    return took / calls, spent / calls


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default="build/src/cli/uprobectl")
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, statistics_enabled():
        path = str(Path(folder) / "target")
        (Path(folder) / "target.c").write_text(PROGRAM)
        subprocess.run(["gcc", "-O1", "-fcf-protection=none", "-o", path, path + ".c"], check=True)
        found = {}
        for _ in range(options.rounds):  # in turn: what else runs on the machine meets all of them
            for name, argv, ready in tools(options, path, make_empty(folder)):
                found.setdefault(name, []).append(measure(argv, ready, path, options.calls))
    integer = [round_[1] for round_ in found["integer"]]
    for name, rounds in found.items():
        ratio = statistics.median(round_[1] / base for round_, base in zip(rounds, integer, strict=True))
        print(json.dumps({"type": "benchmark", "question": f"rejected hit: {name}",
                          "wall_ns": round(statistics.median(each[0] for each in rounds), 1),
                          "program_ns": round(statistics.median(each[1] for each in rounds), 1),
                          "ratio_to_integer": round(ratio, 2), "rounds": options.rounds}), flush=True)


if __name__ == "__main__":
    try:
        main()
    except Failed as failed:
        sys.exit(f"tools/bench_filters.py: error: {failed}")
