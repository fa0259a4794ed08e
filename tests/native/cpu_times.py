#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cpu_times.py UPROBECTL [CALLS]
CPU and waiting time of calls (--cpu) against a program that logs CLOCK_THREAD_CPUTIME_ID and getrusage(RUSAGE_THREAD)
of its own: calls that sleep, that compute, that do both, that contend for one CPU, and nested ones. Needs root. Prints
TAP."""

import collections
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap

UPROBECTL = str(Path(sys.argv[1]).resolve())
CALLS = int(sys.argv[2]) if len(sys.argv) > 2 else 100  # of each kind
KINDS = ("sleeps", "computes", "mixes", "nests", "contends", "whole")
# The kernel's own CPU time has a part of each switch of threads, which takes longest from an idle CPU of a virtual
# machine: up to 15 us were seen. Nanoseconds of a call.
SWITCHES = {"sleeps": 40_000, "mixes": 40_000, "nests": 40_000}


class Attempt:
    """The checks of one attempt. On a busy machine the two clocks of a call differ by more than they do: what a
    scheduler or a hypervisor does between their readings counts for one of them only."""

    def __init__(self):
        self.checks = []

    def check(self, name, problems):
        self.checks.append((name, problems))


TAP = Attempt()


def attempts(most, check, *arguments):
    """Repeats checks that fail; the last attempt counts."""
    global TAP
    for _ in range(most):
        TAP = Attempt()
        check(*arguments)
        if not any(problems for _, problems in TAP.checks):
            break
    return TAP.checks

PROGRAM = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#define FUNCTION __attribute__((noinline))
struct times { long wall, cpu; };
static long calls;
static long now(clockid_t clock) { struct timespec t; clock_gettime(clock, &t); return t.tv_sec * 1000000000L + t.tv_nsec; }
static struct times times(void) { return (struct times){now(CLOCK_MONOTONIC), now(CLOCK_THREAD_CPUTIME_ID)}; }
/* Taken inside of the functions, so that they exclude the cost of their probes. */
static __thread struct times begin, end;
#define BEGIN struct times begun = times()
#define END do { end = times(); begin = begun; } while (0)
static void log_call(const char* kind) {
  char line[128];
  int size = snprintf(line, sizeof(line), "{\"tid\":%d,\"kind\":\"%s\",\"wall\":%ld,\"cpu\":%ld}\n", gettid(), kind,
                      end.wall - begin.wall, end.cpu - begin.cpu);
  if (write(1, line, (size_t)size) != size) abort();
}
static void compute(long ns) { for (long end = now(CLOCK_THREAD_CPUTIME_ID) + ns; now(CLOCK_THREAD_CPUTIME_ID) < end;) {} }
static void nap(long ns) { struct timespec t = {ns / 1000000000L, ns % 1000000000L}; nanosleep(&t, NULL); }
FUNCTION long sleeps(long ns) { BEGIN; nap(ns); END; return ns; }
FUNCTION long computes(long ns) { BEGIN; compute(ns); END; return ns; }
FUNCTION long mixes(long ns) { BEGIN; compute(ns); nap(2 * ns); compute(ns); END; return ns; }
FUNCTION long nests(long ns) { BEGIN; compute(ns); computes(ns); sleeps(ns); END; return ns + 1; }
FUNCTION long contends(long ns) { BEGIN; compute(ns); END; return ns; }
FUNCTION long whole(void) {
  for (long i = 0; i < calls; i++) {
    compute(2000000);
    nap(1000000);
  }
  return calls;
}
#define LOGGED(kind, call) do { call; log_call(kind); } while (0)
static void* contend(void* data) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  if (data) one = *(cpu_set_t*)data;
  sched_setaffinity(0, sizeof(one), &one);
  for (long i = 0; i < calls; i++) LOGGED("contends", contends(3000000));
  return NULL;
}
int main(int argc, char** argv) {
  calls = atol(argv[1]);
  for (long i = 0; i < calls; i++) {
    LOGGED("sleeps", sleeps(200000));
    LOGGED("computes", computes(400000));
    LOGGED("mixes", mixes(300000));
    LOGGED("nests", nests(300000));
  }
  struct rusage before, after;
  getrusage(RUSAGE_THREAD, &before);
  long wall = now(CLOCK_MONOTONIC);
  whole();
  wall = now(CLOCK_MONOTONIC) - wall;
  getrusage(RUSAGE_THREAD, &after);
#define US(time) ((time).tv_sec * 1000000L + (time).tv_usec)
  long used = US(after.ru_utime) + US(after.ru_stime) - US(before.ru_utime) - US(before.ru_stime);
  char line[128];
  int size = snprintf(line, sizeof(line), "{\"tid\":%d,\"kind\":\"whole\",\"wall\":%ld,\"cpu\":%ld}\n", gettid(), wall,
                      used * 1000);
  if (write(1, line, (size_t)size) != size) abort();
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  pthread_t threads[2];
  for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, contend, &one);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  return argc - 2;
}
"""


def run(program, *options, functions=KINDS, calls=CALLS):
    """Returns the records of a run by type, and the calls that the program has logged, by kind."""
    command = [UPROBECTL, "attach", "-j", "-d", "100s", "--command-output", f"{program}.log", *options, program,
               *functions, "--", program, str(calls)]
    before = stolen()
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    records = collections.defaultdict(list)
    for line in done.stdout.splitlines():
        record = json.loads(line)
        records[record["type"]].append(record)
    if done.returncode != 0:
        print("# " + done.stderr.replace("\n", "\n# "))
    logged = collections.defaultdict(list)
    for line in Path(f"{program}.log").read_text().splitlines():
        call = json.loads(line)
        logged[call["kind"]].append(call)
    logged["stolen"] = stolen() - before
    return records, logged


def near(found, expected, calls, extra=0):
    """Within 2 %, and 5 us for the probes of each call, and for the log."""
    return abs(found - expected) <= 0.02 * expected + max(5000 * calls, extra)


def difference(name, found, expected, calls, extra=0):
    if near(found, expected, calls, extra):
        return []
    return [f"{name}: {found} ns instead of {expected} in {calls} calls"]


# getrusage() is as exact as the clock tick. Time stolen by a hypervisor counts as running here, but not there.
TICK = 4_000_000


def stolen():
    """Nanoseconds that a hypervisor has given to other machines, on all CPUs."""
    return int(Path("/proc/stat").read_text().split("\n", 1)[0].split()[8]) * 10_000_000


def sums_differ(found, logged):
    """Differences between the sums of times by kind. `found`: by kind (on_cpu, waiting, calls, calls without times)."""
    problems = []
    for kind in KINDS:
        on_cpu, waiting, calls, unknown = found.get(kind, (0, 0, 0, 0))
        # Calls in nests() are not logged, and whole() calls nothing that is.
        wall = sum(each["wall"] for each in logged[kind])
        cpu = sum(each["cpu"] for each in logged[kind])
        if calls != len(logged[kind]):
            problems.append(f"{kind}: {calls} calls instead of {len(logged[kind])}")
        extra = logged["stolen"] + (TICK if kind == "whole" else 0) + SWITCHES.get(kind, 0) * calls
        extra += unknown * max((each["wall"] for each in logged[kind]), default=0)
        problems += difference(f"{kind} on a CPU", on_cpu, cpu, calls, extra)
        # Interrupts count as running here, but not in the program's CPU time.
        problems += difference(f"{kind} waiting", waiting, wall - cpu, calls, extra + int(0.03 * cpu))
    return problems


def outermost(events):
    """Without the calls inside of nests(): these return before it, in the same thread."""
    kept = []
    for event in events:
        if event["symbol"] == "nests":
            begin = event["time_ns"] - event["latency_ns"]
            kept = [each for each in kept if each["tid"] != event["tid"] or each["time_ns"] < begin]
        kept.append(event)
    return kept


def add_up(calls):
    sums = {}
    for each in calls:
        on_cpu, waiting, count, unknown = sums.get(each["symbol"], (0, 0, 0, 0))
        sums[each["symbol"]] = (on_cpu + each.get("on_cpu_ns", 0), waiting + each.get("waiting_ns", 0), count + 1,
                                unknown + ("on_cpu_ns" not in each))
    return sums


def check_events(program, *options):
    records, logged = run(program, "--cpu", *options)
    events = records["event"]
    unknown = [str(each) for each in events if "on_cpu_ns" not in each]
    # They are not known of a call with a switch that the kernel did not report: some of virtual machines leave out one
    # of 200 (docs/cpu-time.md).
    TAP.check(f"each call has both times ({' '.join(options)})",
              unknown[:3] if len(unknown) > len(events) // 50 or not events else [])
    TAP.check(f"both times are the latency ({' '.join(options)})",
              [str(each) for each in events if "on_cpu_ns" in each and each["on_cpu_ns"] + each["waiting_ns"] != each["latency_ns"]][:3])
    found = outermost(sorted(events, key=lambda each: each["time_ns"]))
    TAP.check(f"times are those of the program ({' '.join(options)})", sums_differ(add_up(found), logged))
    # Each call by itself: those of a kind in a thread are in the same order.
    def by_kind(calls, kind_key):
        made = collections.defaultdict(list)
        for each in calls:
            made[each["tid"], each[kind_key]].append(each)
        return made
    theirs = by_kind([each for kind in KINDS for each in logged[kind]], "kind")
    far = total = 0
    for key, calls in by_kind(found, "symbol").items():
        for one, other in zip(calls, theirs[key]):
            total += 1
            far += "on_cpu_ns" not in one or not near(one["on_cpu_ns"], other["cpu"], 3, SWITCHES.get(one["symbol"], 0))
    TAP.check(f"of single calls, too ({' '.join(options)})", [] if total and far <= total * 0.05 else
              [f"{far} of {total} calls differ"])


def check_graph(program):
    records, logged = run(program, "--graph", "--cpu")
    # Returns have the depth of their call.
    returns = [each for each in records["event"] if each["kind"] == "return" and each["depth"] == 0]
    TAP.check("times of calls in a tree", sums_differ(add_up(returns), logged))
    records, logged = run(program, "--report", "--cpu")
    found = {each["symbol"]: each for each in records["call_summary"]}
    nests = found["nests"]
    TAP.check("the report has the time on a CPU",
              difference("nests", nests["on_cpu_ns"], sum(each["cpu"] for each in logged["nests"]), CALLS, logged["stolen"]))
    # compute() in it takes half of its time on a CPU; what it calls computes the other half.
    TAP.check("and without the calls in a function", [] if 0.45 < nests["self_on_cpu_ns"] / nests["on_cpu_ns"] < 0.55
              else [str(nests)])
    sleeps = found["sleeps"]
    TAP.check("a function that sleeps has none", [] if sleeps["self_on_cpu_ns"] < 0.4 * sleeps["total_ns"] else
              [str(sleeps)])


def check_spans(program):
    spans = [word for kind in KINDS for word in ("--span", f"{kind}={kind}..{kind}%return")]
    records, logged = run(program, "--cpu", *spans, functions=())
    calls = [each | {"symbol": each["name"], "latency_ns": each["duration_ns"],
                     "time_ns": each["start_ns"] + each["duration_ns"]} for each in records["span"]]
    found = outermost(sorted(calls, key=lambda each: each["time_ns"]))
    TAP.check("times of spans of a thread", sums_differ(add_up(found), logged))


def check_sums(program):
    records, logged = run(program, "--histogram", "--measure", "on_cpu", functions=("contends", "mixes"))
    for each in records["histogram"]:
        calls = logged[each["symbol"]]
        unknown = len(calls) - each["count"]
        missing = unknown * max(call["wall"] for call in calls)
        TAP.check(f"the histogram of on_cpu ({each['symbol']})", difference(
            "total", each["total"], sum(call["cpu"] for call in calls), len(calls), logged["stolen"] + missing) +
            ([] if 0 <= unknown <= len(calls) // 50 and each["unit"] == "ns" else [str(each)]))
    records, logged = run(program, "--count", "--by", "tid", "--measure", "waiting", functions=("contends",))
    for each in records["count"]:
        calls = [call for call in logged["contends"] if call["tid"] == each["by"][0]["value"]]
        TAP.check("sums of waiting by thread", difference(
            "sum", each["sum"], sum(call["wall"] - call["cpu"] for call in calls), len(calls), logged["stolen"]) or
            ([] if len(calls) == each["count"] == CALLS else [str(each)]))
    TAP.check("both threads have a sum", [] if len(records["count"]) == 2 else [str(records["count"])])


def check_conditions(program, folder):
    file = os.path.join(folder, "run")
    records, _ = run(program, "--latency", "--if", "waiting>150us && on_cpu<100us", "--save", file)
    found = collections.Counter(each["symbol"] for each in records["event"])
    TAP.check("conditions on both times select calls that sleep",
              [] if found["sleeps"] > 1.8 * CALLS and not found["computes"] + found["whole"] + found["mixes"]
              else [str(found)])
    selected = subprocess.run([UPROBECTL, "report", "-j", "--if", "on_cpu<100us", file], capture_output=True,
                              text=True, timeout=60)
    events = [json.loads(line) for line in selected.stdout.splitlines() if '"type":"event"' in line]
    TAP.check("a saved run has both times", [] if selected.returncode == 0 and len(events) == len(records["event"]) and
              all("waiting_ns" in each for each in events) else [selected.stderr, str(len(events))])
    run(program, "--latency", "--save", file, calls=2)
    refused = subprocess.run([UPROBECTL, "report", "--if", "on_cpu<100us", file], capture_output=True, text=True,
                             timeout=60)
    TAP.check("a run without them is refused", [] if refused.returncode != 0 and
              "saved without --cpu" in refused.stderr else [refused.stderr])


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "times")
        source = program + ".c"
        Path(source).write_text(PROGRAM)
        subprocess.run(["gcc", "-O2", "-g", "-pthread", "-o", program, source], check=True)
        for check, *arguments in ((check_events, "--buffer", "ring"), (check_events, "--buffer", "perf"), (check_graph,),
                                  (check_spans,), (check_sums,), (check_conditions, folder)):
            for name, problems in attempts(4, check, program, *arguments):
                tap.check(name, problems)
    tap.done()


if __name__ == "__main__":
    main()
