#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares --graph --report with uftrace: the same C program, compiled with -pg for uftrace.

Usage: graph_agreement.py PROGRAM. Needs root, gcc and uftrace. Prints TAP.

Calls of each function and of each pair of caller and callee are equal. Of a function that rests, the
shortest call takes as long by both, but for the cost of the probes.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap

LIMIT = 120  # seconds for any command
REST_NS = 3_000_000
# A call of `rest` has eight hits at most in it. A busy machine may delay each wakeup.
TOLERANCE_NS = 1_500_000
FUNCTIONS = ["work", "leaf", "factorial", "rest", "even", "odd"]
SOURCE = """
#include <time.h>
#define FUNCTION __attribute__((noinline, noclone))
#define AFTER_CALL __asm__ volatile("" ::: "memory")
FUNCTION long leaf(long n) { AFTER_CALL; return n + 1; }
FUNCTION long factorial(long n) {
  long result = n < 2 ? leaf(n) : n * factorial(n - 1);
  AFTER_CALL;
  return result;
}
FUNCTION long odd(long n);
FUNCTION long even(long n) { long result = n == 0 ? leaf(n) : odd(n - 1); AFTER_CALL; return result; }
FUNCTION long odd(long n) { long result = n == 0 ? 0 : even(n - 1); AFTER_CALL; return result; }
FUNCTION long rest(long n) {
  struct timespec time = {0, 3000000};
  nanosleep(&time, 0);
  AFTER_CALL;
  return leaf(n);
}
FUNCTION long work(long n) {
  long result = factorial(n % 6) + even(n % 9);
  if (n % 10 == 0) result += rest(n);
  AFTER_CALL;
  return result + leaf(n);
}
int main(void) {
  long sum = 0;
  for (long i = 0; i < 200; i++) sum += work(i);
  return sum == 1;
}
"""


def run(argv, **options):
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=LIMIT, check=False, **options)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, argv))}: {done.stdout}{done.stderr}")
    return done.stdout


def edges_of_tree(text):
    """The pairs of caller and callee of `uftrace replay -f none`, which indents by two."""
    edges, stack = Counter(), []
    for line in text.splitlines():
        match = re.match(r"( *)(\w+)\(.*?\)( \{|;)$", line)
        if not match:
            continue
        depth, name = len(match[1]) // 2, match[2]
        del stack[depth:]
        callers = [each for each in stack if each in FUNCTIONS]
        if name in FUNCTIONS:
            edges[callers[-1] if callers else None, name] += 1
        stack.append(name)
    return edges


def by_uftrace(folder):
    data = folder / "data"
    run(["uftrace", "record", "--no-event", "--no-libcall", "-d", data, folder / "program-pg"])
    edges = edges_of_tree(run(["uftrace", "replay", "-d", data, "-f", "none"]))
    table = run(["uftrace", "report", "-d", data, "--avg-total"])
    # AVG UNIT MIN UNIT MAX UNIT NAME
    row = re.search(r"^ *\S+ \S+ +(\S+) (\S+) +\S+ \S+ +rest$", table, re.M)
    unit = {"us": 1e3, "ms": 1e6}[row[2]]
    return edges, float(row[1]) * unit


def by_uprobectl(program, folder):
    output = run([program, "attach", "--graph", "--report", "-j", "--args", "none", "-d", str(LIMIT),
                  folder / "program", *FUNCTIONS, "--", folder / "program"])
    records = [json.loads(line) for line in output.splitlines()]
    edges = Counter({(each["caller"], each["callee"]): each["calls"]
                     for each in records if each["type"] == "call_edge"})
    summaries = {each["symbol"]: each for each in records if each["type"] == "call_summary"}
    return edges, summaries, records


def nesting_problems(records):
    """Each return is that of the innermost open call, at its depth."""
    stack = []
    for each in records:
        if each["type"] != "event":
            continue
        if each["kind"] == "entry":
            stack.append((each["symbol"], each["depth"]))
            if each["depth"] != len(stack) - 1:
                yield f"{each['symbol']} at depth {each['depth']} in {len(stack) - 1} calls"
        elif not stack or stack.pop() != (each["symbol"], each["depth"]):
            yield f"a return of {each['symbol']} is not that of the innermost call"


def sum_problems(summaries, records):
    """Durations as Python adds them up from the records of the calls."""
    totals, selves, stack = Counter(), Counter(), []
    for each in records:
        if each["type"] != "event":
            continue
        if each["kind"] == "entry":
            stack.append([each["symbol"], 0])
            continue
        name, children = stack.pop()
        selves[name] += each["latency_ns"] - children
        if stack:
            stack[-1][1] += each["latency_ns"]
        if all(open_name != name for open_name, _ in stack):
            totals[name] += each["latency_ns"]
    for name, summary in summaries.items():
        if summary["self_ns"] != selves[name]:
            yield f"{name}: self time {summary['self_ns']}, the records have {selves[name]}"
        if summary["total_ns"] != totals[name]:
            yield f"{name}: total time {summary['total_ns']}, the records have {totals[name]}"


def late_ends(program, folder):
    """A call under way at the end has not taken the time that detaching takes: a second for sixty perf events."""
    functions = "".join(f"__attribute__((noipa)) void f{i}(void) {{}}\n" for i in range(60))
    (folder / "waits.c").write_text("#include <stdio.h>\n#include <unistd.h>\n" + functions + """
__attribute__((noipa)) void waits(void) { sleep(60); __asm__ volatile("" ::: "memory"); }
int main(void) { getchar(); waits(); return 0; }
""")
    run(["gcc", "-O1", "-o", folder / "waits", folder / "waits.c"])
    target = subprocess.Popen([folder / "waits"], stdin=subprocess.PIPE)
    attach = subprocess.Popen([program, "attach", "--graph", "-j", "--args", "none", "--mechanism", "perf-ioctl", "-d", "2s",
                               "-p", str(target.pid), folder / "waits", "f*", "waits"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    records = [json.loads(attach.stdout.readline())]
    target.stdin.write(b"\n")
    target.stdin.flush()
    records += [json.loads(line) for line in attach.stdout]
    attach.wait(timeout=LIMIT)
    target.kill()
    target.wait()
    begin = next(each["clocks"]["monotonic"] for each in records if each["type"] == "attached")
    duration = next(each["duration_ns"] for each in records if each["type"] == "summary")
    ends = [each for each in records if each["type"] == "call_end" and each["symbol"] == "waits"]
    if [each["end"] for each in ends] != ["run_ended"]:
        return [f"not one call under way: {ends}"]
    return [f"{each['time_ns'] - begin} ns after the begin of a run of {duration} ns" for each in ends
            if each["time_ns"] - begin > duration + 200_000_000]


def main():
    program = Path(sys.argv[1]).resolve()
    for tool in ("gcc", "uftrace"):
        if not shutil.which(tool):
            print(f"1..0 # SKIP no {tool} on this machine")
            return
    if os.geteuid() != 0:
        print("1..0 # SKIP not root")
        return
    tap = Tap()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "program.c").write_text(SOURCE)
        compile_it = ["gcc", "-O1", "-g0", folder / "program.c", "-o"]
        run([*compile_it, folder / "program"])
        run([*compile_it, folder / "program-pg", "-pg"])
        their_edges, their_rest = by_uftrace(folder)
        edges, summaries, records = by_uprobectl(program, folder)
        late = late_ends(program, folder)
    tap.check("calls by caller and callee are those of uftrace",
              [f"{caller} -> {callee}: {edges[caller, callee]} calls, uftrace has {count}"
               for (caller, callee), count in (their_edges | edges).items()
               if edges[caller, callee] != their_edges[caller, callee]])
    tap.check("uftrace has seen the calls of the program",
              [] if their_edges[None, "work"] == 200 else [dict(their_edges)])
    tap.check("each return is that of the innermost call", list(nesting_problems(records)))
    tap.check("total and self times are the sums of the calls' durations",
              list(sum_problems(summaries, records)))
    ours = summaries["rest"]["min_ns"]
    tap.check("a call under way ends with the recording", late)
    tap.check("the shortest rest takes as long as by uftrace, but for the probes",
              [] if ours >= REST_NS and abs(ours - their_rest) < TOLERANCE_NS
              else [f"{ours} ns, by uftrace {their_rest} ns"])
    tap.done()


if __name__ == "__main__":
    main()
