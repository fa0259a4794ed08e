#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures how much longer a call takes under `attach --graph` and `--report`, and under other tracers.

    tools/bench_graph.py [--binary build/src/cli/uprobectl] [--calls 1000000] [TOOL…]

Tools: uprobectl, uprobectl-report, uftrace, perf, bpftrace, ltrace; by default those that are
installed. Needs root and gcc. Every tool traces both ends of the same two functions, one of which
calls the other, in a program that this makes and the tool starts; uftrace gets it compiled with -pg.
The program measures itself. ltrace makes fewer calls. Prints a table in Markdown.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 600  # seconds for any command
LTRACE_CALLS = 20_000
SOURCE = """
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#define FUNCTION __attribute__((noinline, noclone))
#define AFTER_CALL __asm__ volatile("" ::: "memory")
FUNCTION long inner(long n) { AFTER_CALL; return n + 1; }
FUNCTION long outer(long n) { long result = inner(n); AFTER_CALL; return result + 1; }
__attribute__((no_instrument_function)) int main(int argc, char** argv) {
  const long calls = atol(argv[1]);
  struct timespec begin, end;
  long sum = 0;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  for (long i = 0; i < calls / 2; i++) sum += outer(i);
  clock_gettime(CLOCK_MONOTONIC, &end);
  FILE* out = fopen(argv[2], "w");
  fprintf(out, "%ld\\n", (end.tv_sec - begin.tv_sec) * 1000000000 + end.tv_nsec - begin.tv_nsec);
  fclose(out);
  return sum == 1;
}
"""


def run(argv, **options):
    done = subprocess.run(list(map(str, argv)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=LIMIT, check=False, **options)
    if done.returncode != 0:
        sys.exit(f"tools/bench_graph.py: error: {' '.join(map(str, argv))}: {done.stdout[-500:]}{done.stderr}")
    return done


class Bench:
    def __init__(self, binary, calls, folder):
        self.binary, self.calls, self.folder = binary, calls, folder
        self.time_file = folder / "time"
        (folder / "program.c").write_text(SOURCE)
        build = ["gcc", "-O1", "-fno-omit-frame-pointer", folder / "program.c", "-o"]
        run([*build, self.program])
        run([*build, self.instrumented, "-pg"])

    @property
    def program(self):
        return self.folder / "program"

    @property
    def instrumented(self):
        return self.folder / "program-pg"

    def command(self, program, calls=None):
        return [program, calls or self.calls, self.time_file]

    def nanoseconds(self, calls=None):
        """Of one call, as the program has measured it."""
        return int(self.time_file.read_text()) / (calls or self.calls)

    def alone(self, program):
        run(self.command(program), cwd=self.folder)  # one with -pg leaves gmon.out
        return self.nanoseconds()

    def added(self, program, calls=None):
        return self.nanoseconds(calls) - self.alone(program)

    def uprobectl(self, *options):
        said = run([self.binary, "attach", *options, "-o", self.folder / "out", self.program, "outer",
                    "inner", "--", *self.command(self.program)]).stderr
        events, lost = re.search(r"(\d+) events? in .*?, (\d+) lost", said).groups()
        if int(events) + int(lost) != 2 * self.calls:
            sys.exit(f"tools/bench_graph.py: error: {events} events and {lost} lost of {2 * self.calls}")
        return self.added(self.program), f"{lost} of {2 * self.calls} hits lost"

    def tool_uprobectl(self):
        return self.uprobectl("--graph")

    def tool_uprobectl_report(self):
        return self.uprobectl("--report")

    def tool_uftrace(self):
        data = self.folder / "data"
        said = run(["uftrace", "record", "-d", data, *self.command(self.instrumented)], cwd=self.folder)
        lost = re.search(r"(\d+) records? (?:were )?lost|LOST (\d+)", said.stdout + said.stderr)
        return self.added(self.instrumented), lost[0] if lost else "instrumented, started by it"

    def tool_perf(self):
        events = []
        try:
            for name in ("outer", "inner"):
                for end in ("", "%return"):
                    # perf appends __return to the name.
                    run(["perf", "probe", "-q", "-x", self.program, f"bench_graph:{name}={name}{end}"])
                    events += ["-e", f"bench_graph:{name}{'__return' if end else ''}"]
            run(["perf", "record", "-q", "-m", "16M", *events, "-o", self.folder / "perf.data",
                 "--", *self.command(self.program)])
        finally:
            subprocess.run(["perf", "probe", "-q", "-d", "bench_graph:*"], check=False,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        added = self.added(self.program)
        lines = run(["perf", "script", "-i", self.folder / "perf.data", "-F", "comm,tid,time,event"]).stdout
        seen = lines.count("bench_graph:")
        return added, f"{2 * self.calls - seen} of {2 * self.calls} hits lost; the return address is replaced"

    def tool_bpftrace(self):
        script = " ".join(
            f'{kind}:{self.program}:{name} {{ printf("%llu %d {kind} {name} %llx\\n", nsecs, tid, {value}); }}'
            for name in ("outer", "inner")
            for kind, value in (("uprobe", "arg0"), ("uretprobe", "retval")))
        run(["bpftrace", "-o", self.folder / "out", "-e", script,
             "-c", " ".join(map(str, self.command(self.program)))])
        added = self.added(self.program)
        with open(self.folder / "out", encoding="utf-8", errors="replace") as lines:
            seen = sum(" inner " in line or " outer " in line for line in lines)
        return added, f"{2 * self.calls - seen} of {2 * self.calls} hits lost; the return address is replaced"

    def tool_ltrace(self):
        calls = min(self.calls, LTRACE_CALLS)
        run(["ltrace", "-L", "-x", "outer+inner", "-o", self.folder / "out",
             *self.command(self.program, calls)])
        return self.added(self.program, calls), f"{calls} calls"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", type=Path, default=ROOT / "build/src/cli/uprobectl")
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("tools", nargs="*")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("tools/bench_graph.py: error: not root")
    known = ["uprobectl", "uprobectl-report", "uftrace", "perf", "bpftrace", "ltrace"]
    tools = options.tools or [each for each in known
                              if each.startswith("uprobectl") or shutil.which(each)]
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(options.binary.resolve(), options.calls, Path(name))
        print("| tool | a call takes longer by | against uprobectl | |\n|---|---|---|---|")
        first = None
        for tool in tools:
            added, note = getattr(bench, f"tool_{tool.replace('-', '_')}")()
            first = first or added
            print(f"| {tool} | {added / 1000:.2f} us | {added / first:.2f} | {note} |", flush=True)


if __name__ == "__main__":
    main()
