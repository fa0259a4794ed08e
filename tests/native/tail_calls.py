#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tail_calls.py UPROBECTL
Calls that go on in a function that theirs jumps to, against a program that logs the result and the time of each call
itself: chains of jumps, callees that others call too, longjmp out of them, PLT entries. Needs root and gcc. Prints
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
TAP = Tap()
REST_NS = 2_000_000  # each call of `finish` rests as long

# A library: jumps to its own exported function go through its PLT.
LIBRARY = r"""
#define FUNCTION __attribute__((noinline, noclone))
#define WORK(value) __asm__ volatile("" : "+r"(value) : : "memory")
FUNCTION long lib_end(long n) { WORK(n); return n + 1000; }
FUNCTION long lib_jumps(long n) { WORK(n); return lib_end(n); }
long elsewhere(long n);
FUNCTION long lib_leaves(long n) { WORK(n); return elsewhere(n); }
"""
PRELOADED = r"""
long lib_end(long n) { return n + 7; }
"""
PROGRAM = r"""
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#define FUNCTION __attribute__((noinline, noclone))
#define WORK(value) __asm__ volatile("" : "+r"(value) : : "memory")
long lib_end(long n), lib_jumps(long n), lib_leaves(long n);
__attribute__((visibility("default"))) long elsewhere(long n) { return n * 2; }
static long now(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return at.tv_sec * 1000000000 + at.tv_nsec;
}
static jmp_buf landing;
static void* volatile nothing; /* or the compiler calls malloc() */
FUNCTION long finish(long n) {
  struct timespec rest = {0, 2000000};
  nanosleep(&rest, 0);
  WORK(n);
  return n * 3;
}
FUNCTION long chain1(long n) { WORK(n); return finish(n + 1); }
FUNCTION long chain2(long n) { WORK(n); return chain1(n + 1); }
FUNCTION long chain3(long n) { WORK(n); return chain2(n + 1); }
FUNCTION long chain4(long n) { WORK(n); return chain3(n + 1); }
FUNCTION long chain5(long n) { WORK(n); return chain4(n + 1); }
FUNCTION long meets(long n) { WORK(n); return n - 4; }
FUNCTION long way_a(long n) { WORK(n); return meets(n + 1); }
FUNCTION long way_b(long n) { WORK(n); return meets(n + 2); }
FUNCTION long parts(long n) { WORK(n); return n & 1 ? way_a(n) : way_b(n); }
FUNCTION long odd(long n);
FUNCTION long even(long n) { WORK(n); return n <= 0 ? n + 40 : odd(n - 1); }
FUNCTION long odd(long n) { WORK(n); return n <= 0 ? n + 50 : even(n - 1); }
FUNCTION long shared(long n) { WORK(n); return n ^ 0x55; }
FUNCTION long jumps_a(long n) { WORK(n); return shared(n + 100); }
FUNCTION long jumps_b(long n) { WORK(n); return n & 1 ? shared(n + 200) : n; }
FUNCTION long calls_too(long n) { n += shared(n); WORK(n); return shared(n); }
FUNCTION long lands(long n) {
  WORK(n);
  if (n & 1) longjmp(landing, 1);
  return n + 5;
}
FUNCTION long jumps_away(long n) { WORK(n); return lands(n); }
static long (*volatile pointer)(long) = shared;
FUNCTION long indirect(long n) { WORK(n); return pointer(n); }
FUNCTION long both(long n) { WORK(n); return n < 4 ? shared(n) : pointer(n); }
FUNCTION long inner(long n) {
  long before = shared(n); /* another frame */
  WORK(before);
  return before + 1;
}
FUNCTION long has_inner(long n) { WORK(n); return inner(n); }
#define CALL(name, n)                                                                             \
  do {                                                                                            \
    long begin = now();                                                                           \
    long result = name(n);                                                                        \
    long end = now();                                                                             \
    printf("{\"name\":\"%s\",\"n\":%ld,\"result\":%ld,\"ns\":%ld}\n", #name, (long)(n), result,    \
           end - begin);                                                                          \
  } while (0)
static void* run_thread(void* data) {
  long thread = (long)data;
  for (long i = 0; i < 20; i++) {
    flockfile(stdout);
    funlockfile(stdout);
    CALL(chain2, thread * 1000 + i);
  }
  return 0;
}
int main(int argc, char** argv) {
  setvbuf(stdout, 0, _IOFBF, 1 << 20);
  if (argc > 1) {
    for (long i = 0; i < 100; i++) {
      volatile long size = 2000 + i;
      char* made = calloc(1, size);
      printf("{\"name\":\"calloc\",\"n\":%ld,\"result\":%ld}\n", size, (long)made);
      char* grown = realloc(nothing, size);
      printf("{\"name\":\"realloc\",\"n\":%ld,\"result\":%ld}\n", size, (long)grown);
      free(grown);
      if (i % 10) free(made);
    }
    return 0;
  }
  for (long i = 0; i < 3; i++) {
    CALL(chain1, i);
    CALL(chain2, i);
    CALL(chain3, i);
    CALL(chain4, i);
    CALL(chain5, i);
    CALL(parts, i);
  }
  CALL(even, 6);
  CALL(even, 1);
  CALL(odd, 0);
  for (volatile long i = 0; i < 10; i++) {
    CALL(jumps_a, i);
    CALL(shared, i);
    CALL(jumps_b, i);
    CALL(calls_too, i);
    CALL(indirect, i);
    CALL(both, i);
    CALL(has_inner, i);
    CALL(lib_jumps, i);
    CALL(lib_leaves, i);
    if (setjmp(landing) == 0) {
      CALL(jumps_away, i);
    } else {
      CALL(lands, i * 2); /* with the stack pointer that the call which was left had */
    }
  }
  pthread_t threads[4];
  for (long i = 0; i < 4; i++) pthread_create(&threads[i], 0, run_thread, (void*)i);
  for (long i = 0; i < 4; i++) pthread_join(threads[i], 0);
  return 0;
}
"""


def records_of(text):
    records = collections.defaultdict(list)
    for line in text.splitlines():
        record = json.loads(line)
        records[record["type"]].append(record)
    return records


def run(program, *options, arguments=(), preload=None):
    """Returns the records of a run by type, what the program has logged by function, and the messages."""
    environment = dict(os.environ, LD_PRELOAD=preload) if preload else None
    log = Path(f"{program}.log")
    done = subprocess.run([UPROBECTL, "attach", "-j", "-d", "60s", "--command-output", log, *options, "--", program,
                           *arguments], capture_output=True, text=True, timeout=120, env=environment, check=False)
    if done.returncode != 0:
        print("# " + done.stderr.replace("\n", "\n# "))
    logged = collections.defaultdict(list)
    for line in log.read_text().splitlines():
        call = json.loads(line)
        logged[call["name"]].append(call)
    return records_of(done.stdout), logged, done.stderr


def returned(records, name):
    return [each for each in records["event"] if each["symbol"].split("@")[0] == name and each["left_by"] == "return"]


def number(text):
    value = int(text, 16) if isinstance(text, str) else text
    return value - (1 << 64) if value >> 63 else value


def results(events):
    return sorted(number(each["return_value"]) for each in events)


def differ(records, logged, name):
    """What is wrong with the results of the calls of a function that all return."""
    found = results(returned(records, name))
    expected = sorted(each["result"] for each in logged[name])
    return [] if found == expected else [f"{name}: {found[:9]} instead of {expected[:9]}"]


def check(name, problems, said=""):
    TAP.check(name, list(problems) + ([said] if problems and said else []))


def test_chains(program):
    names = ["chain1", "chain2", "chain3", "chain4", "chain5"]
    records, logged, said = run(program, "--latency", program, *names)
    # Each calls those before it by jumps.
    logged = {name: [each for later in names[at:] for each in logged[later]] for at, name in enumerate(names)}
    problems = [each for name in names[:4] for each in differ(records, logged, name)]
    for name in names[:4]:
        shortest = min((each["latency_ns"] for each in returned(records, name)), default=0)
        if shortest < REST_NS:
            problems.append(f"{name} takes {shortest} ns, expected at least {REST_NS}")
        longest = max(each["ns"] for each in logged[name])
        if any(each["latency_ns"] > longest for each in returned(records, name)):
            problems.append(f"{name} takes longer than by its own clock")
    check("calls of one to four jumps have the result and the time of the last function", problems, said)
    ways = {each["left_by"] for each in records["event"] if each["symbol"] == "chain5"}
    times = [each["latency_ns"] for each in records["event"] if each["symbol"] == "chain5"]
    check("a call of five jumps ends at the fifth", [] if ways == {"tail_call"} and len(times) == 3 and
          max(times) < REST_NS else [f"{ways} {times}"], said)
    check("no call is lost", [str(records["lost"])] if records["lost"] else [])
    records, logged, said = run(program, "--latency", "--return-at", "ret", program, "chain1")
    ways = collections.Counter(each["left_by"] for each in records["event"])
    check("with --return-at ret a call ends at the jump", [] if ways == {"tail_call": 95} else [str(ways)], said)


def test_single_jumps(program):
    names = ["jumps_a", "jumps_b", "has_inner", "calls_too"]
    for mechanism in "multi", "perf", "tracefs":
        records, logged, said = run(program, "--latency", "--mechanism", mechanism, program, *names)
        problems = [each for name in names for each in differ(records, logged, name)]
        if records["lost"]:
            problems.append(str(records["lost"]))
        check(f"{mechanism}: calls of the function that is jumped to by others end no call", problems, said)
    records, logged, said = run(program, "--return", program, *names)
    check("--return alone has the results", [each for name in names for each in differ(records, logged, name)], said)
    records, logged, said = run(program, "--return", "--if", "ret==0x55", program, "jumps_b", "jumps_a", "shared")
    found = collections.Counter(each["symbol"] for each in records["event"])
    expected = collections.Counter(
        each["name"] for name in ("jumps_b", "jumps_a", "shared") for each in logged[name] if each["result"] == 0x55)
    # `shared` is also called where the program does not log it.
    found.pop("shared"), expected.pop("shared")
    check("a condition on the result is decided by that of the last function",
          [] if found == expected else [f"{found} instead of {expected}"], said)
    records, logged, said = run(program, "--count", "--by", "ret", program, "jumps_a")
    found = sorted((each["by"][0]["value"], each["count"]) for each in records["count"])
    expected = sorted(collections.Counter(each["result"] for each in logged["jumps_a"]).items())
    check("--count --by ret counts the results", [] if found == expected else
          [f"{found} instead of {expected}"], said)


def test_other_ends(program):
    records, logged, said = run(program, "--latency", program, "jumps_away", "indirect", "both", "even")
    # What lands() is called with directly has the stack pointer of the call that longjmp() has left.
    check("longjmp out of the last function, which is then called directly, ends no call",
          differ(records, logged, "jumps_away"), said)
    ways = collections.Counter((each["symbol"], each["left_by"]) for each in records["event"])
    expected = {("jumps_away", "return"): 5, ("indirect", "tail_call"): 10, ("both", "return"): 4,
                ("both", "tail_call"): 6, ("even", "tail_call"): 3, ("even", "return"): 2}
    check("indirect jumps, and a jump back to the function, end a call", [] if ways == expected else [str(ways)], said)


def test_tables(program, library, preloaded):
    records, logged, said = run(program, "--latency", library, "lib_jumps", "lib_leaves")
    problems = differ(records, logged, "lib_jumps")
    ways = collections.Counter((each["symbol"], each["left_by"]) for each in records["event"])
    # The first call binds the entry of the PLT, unless the linker has done that at the start.
    if ways != {("lib_jumps", "return"): 10, ("lib_leaves", "tail_call"): 10}:
        problems.append(str(ways))
    check("a jump through the PLT to the same file is followed, one to another file is not", problems, said)
    records, logged, said = run(program, "--latency", library, "lib_jumps", preload=preloaded)
    ways = collections.Counter(each["left_by"] for each in records["event"])
    check("a jump through the PLT that a preloaded library takes over ends the call",
          [] if ways == {"tail_call": 10} else [str(ways)], said)


def test_graph(program):
    records, logged, said = run(program, "--graph", "--report", program, "chain3", "chain2", "chain1", "finish")
    edges = {(each["caller"], each["callee"]): each["calls"] for each in records["call_edge"] if each["caller"]}
    calls = {name: len(logged[name]) for name in ("chain1", "chain2", "chain3")}
    through_2 = calls["chain2"] + calls["chain3"] + 6  # and from chain4, chain5
    expected = {("chain3", "chain2"): calls["chain3"] + 6, ("chain2", "chain1"): through_2,
                ("chain1", "finish"): through_2 + calls["chain1"]}
    check("functions that are jumped to are nested in the tree", [] if edges == expected else
          [f"{edges} instead of {expected}"], said)
    ways = collections.Counter(each["left_by"] for each in records["event"] if each["kind"] == "return")
    calls_of_all = sum(expected.values()) + calls["chain1"] + calls["chain2"] + calls["chain3"] + 6
    check("and all of them return", [] if ways == {"return": calls_of_all} else
          [f"{ways} instead of {calls_of_all}"], said)
    # odd() outlasts even(), which ends where odd() begins it anew, and chain4() outlasts the five jumps of chain5().
    records, logged, said = run(program, "--graph", program, "even", "odd", "chain5", "chain4", "jumps_a", "shared")
    ways = collections.Counter((each["symbol"], each["left_by"]) for each in records["event"] + records["call_end"]
                               if each.get("kind") != "entry" and each["symbol"] != "shared")
    expected = {("even", "return"): 1, ("even", "tail_call"): 4, ("odd", "return"): 2, ("odd", "tail_call"): 3,
                ("chain5", "tail_call"): 3, ("chain4", "return"): 6, ("jumps_a", "return"): 10}
    check("a jump to a probed function that would outlast the call is not followed in the tree",
          [] if ways == expected else [f"{ways} instead of {expected}"], said)
    # meets() is reached through a probed function and past it.
    for way in ("way_a", "way_b"):
        records, logged, said = run(program, "--graph", program, "parts", way)
        ends = [each["left_by"] for each in records["event"] + records["call_end"]
                if each["symbol"] == "parts" and each.get("kind") != "entry"]
        check(f"a function on two ways to it has each return once, {way}",
              [] if ends == ["return"] * len(logged["parts"]) else [str(ends)], said)
    saved = f"{program}.run"
    run(program, "--graph", "--save", saved, program, "lands")
    read = subprocess.run([UPROBECTL, "report", "--count", "--by", "ret", saved], capture_output=True, text=True,
                          timeout=60, check=False)
    counted = sum(int(line.split("\t")[0]) for line in read.stdout.splitlines())
    check("report --by ret of a saved tree says how many calls have no return", [] if counted == 10 and
          "warning: 5 calls without a return: not counted" in read.stderr else [read.stdout, read.stderr])


def test_notes(program):
    """What is said before the run, and in which processes jumps are followed by default."""
    def dry_run(*options):
        done = subprocess.run([UPROBECTL, "attach", "--dry-run", "--latency", *options], capture_output=True, text=True,
                              timeout=120, check=False)
        failed = [] if done.returncode == 0 else [done.stderr]
        return failed + [line for line in done.stderr.splitlines() if "by a jump" in line]
    pid = str(os.getpid())
    expected = "1 function is left by a jump: 1 exit of finish is probed, too, and each call of it costs a hit"
    for followed, options in ((True, ["-p", pid]), (False, []), (False, ["-p", "tails"]),
                              (False, ["-p", pid, "-p", "tails"]), (False, ["-p", pid, "--follow"]),
                              (True, ["--return-at", "callee"]),
                              (False, ["-p", pid, "--return-at", "ret"])):
        said = dry_run(*options, program, "chain1")
        is_right = len(said) == 1 and said[0].startswith(expected) if followed else said == []
        options = " ".join(options).replace(pid, "PID") or "no process"
        check(f"jumps are {'' if followed else 'not '}followed with {options}",
              [] if is_right else said or ["no line"])
    said = "".join(dry_run("-p", pid, "libc.so.6", "str*"))
    check("many functions that are jumped to are one short line", [] if "others (-v lists them)" in said and
          len(said) < 500 else [said or "no line"])


def test_c_library(program):
    records, logged, said = run(program, "--latency", "libc.so.6", "calloc", "realloc", arguments=["allocate"])
    for name in "calloc", "realloc":
        found = set(results(returned(records, name)))
        missing = [each["result"] for each in logged[name] if each["result"] not in found]
        check(f"{name} of the C library has its results", missing and [f"{len(missing)} are missing"], said)
    records, logged, said = run(program, "--span", "heap", "libc.so.6", arguments=["allocate"])
    summary = next((each for each in records["span_summary"] if each["name"] == "heap"), {})
    problems = [str(each) for each in records["lost"]]
    # realloc() jumps to malloc(): both begin the span.
    if summary.get("begun_again") != 100 or summary.get("open", 0) < 10:
        problems.append(str(summary))
    check("--span heap knows the keys of calloc and realloc", problems, said)


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        for name, text in ("program", PROGRAM), ("library", LIBRARY), ("preloaded", PRELOADED):
            Path(folder, f"{name}.c").write_text(text)
        library, preloaded, program = f"{folder}/libtails.so", f"{folder}/libother.so", f"{folder}/tails"
        compile_c = ["gcc", "-g", "-O2", "-foptimize-sibling-calls"]
        for name, output in ("library", library), ("preloaded", preloaded):
            subprocess.run([*compile_c, "-shared", "-fPIC", "-Wl,-z,now", "-o", output, f"{folder}/{name}.c"], check=True)
        subprocess.run([*compile_c, "-pthread", "-rdynamic", "-o", program, f"{folder}/program.c", library,
                        f"-Wl,-rpath,{folder}"], check=True)
        test_chains(program)
        test_single_jumps(program)
        test_other_ends(program)
        test_tables(program, library, preloaded)
        test_graph(program)
        test_notes(program)
        test_c_library(program)
    TAP.done()


main()
