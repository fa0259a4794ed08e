#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""spans.py UPROBECTL [PAIRS]
Spans of --span against a program that logs its own: threads begin and end jobs with keys that are used again, also
before they have ended; some never end, some ends have no beginning. Counts are equal, and so is each span. What is
not freed at the end is found with its size and the stack of its beginning. Needs root. Prints TAP."""

import collections
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap

UPROBECTL = str(Path(sys.argv[1]).resolve())
PAIRS = int(sys.argv[2]) if len(sys.argv) > 2 else 4000  # of each thread
THREADS = 8
TAP = Tap()
PROGRAM = Path(__file__).resolve().parent.parent.parent / "fixtures/workload/jobs.c"


def run(program, *options, functions=(), pairs=PAIRS, children=None):
    """Returns the records of a run, by type, what the program has logged, and the messages."""
    command = [UPROBECTL, "attach", "-j", "-d", "60s", "--command-output", f"{program}.log", *options, program,
               *functions, "--", program, str(THREADS), str(pairs)]
    if children is not None:
        command.append(str(children))
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    records = collections.defaultdict(list)
    for line in done.stdout.splitlines():
        record = json.loads(line)
        records[record["type"]].append(record)
    if done.returncode != 0:
        print("# " + done.stderr.replace("\n", "\n# "))
    return records, json.loads(Path(f"{program}.log").read_text()), done.stderr


def summary(records, name):
    return next((each for each in records["span_summary"] if each["name"] == name), {})


def differences(found, expected):
    return [f"{key}: {found.get(key)} instead of {value}" for key, value in expected.items() if found.get(key) != value]


def value(arguments, name):
    return next((each["value"] for each in arguments or [] if each["name"] == name), None)


def check_jobs(program, mode):
    records, logged, _ = run(program, "--span", "job=job_begin..job_end:job->id/id", "--buffer", mode)
    TAP.check(f"counts of spans are those of the program ({mode})", differences(
        summary(records, "job"), logged | {"without_room": 0, "unread_keys": 0, "null_keys": 3}))
    spans = records["span"]
    lost = sum(each["count"] for each in records["lost"])
    TAP.check(f"each span that ended is an event, or counted as lost ({mode})",
              [] if len(spans) + lost == logged["ended"] else [f"{len(spans)} + {lost} of {logged['ended']}"])
    TAP.check(f"keys are the values of both ends ({mode})",
              [str(each) for each in spans if each["key"] != value(each["end_arguments"], "id")][:3])
    # The last beginning counts: job_begin(job, 100) was called before job_end() in one of 1000.
    sizes = collections.Counter(value(each["arguments"], "size") for each in spans)
    TAP.check(f"a span that begins again is the later one ({mode})",
              [] if lost or sizes[100] == logged["begun_again"] else [str(sizes)])
    TAP.check(f"durations are those between the hits ({mode})",
              [str(each) for each in spans if not 0 < each["duration_ns"] < 10**10][:3])


def check_open(program):
    records, logged, _ = run(program, "--open", "--span", "job=job_begin..job_end:job->id/id", pairs=100)
    keys = sorted(each["key"] for each in records["span"])
    expected = [1000000 + i for i in range(THREADS)]
    TAP.check("open spans are those that the program has not ended", [] if keys == expected else [str(keys)])
    TAP.check("open spans have an age and no end", [
        str(each) for each in records["span"]
        if each["duration_ns"] is not None or each["to"] is not None or not each["age_ns"] > 0])


HEAP = ("--span", "heap=make_thing..drop_thing:ret/thing", "--span", "heap=grow_thing..grow_thing:ret/thing",
        "--span", "heap=make_into%return..drop_thing:*arg0/thing")


def lines_of_page(path, kind):
    """The lines of a page's run with this letter, as lists of their JSON fields."""
    lines = Path(path).read_text().split('<script type="text/plain" id="run">\n')[1].splitlines()
    return [line.split("\t")[1:] for line in lines if line.startswith(kind + "\t")]


def check_pages(program, folder):
    page = os.path.join(folder, "open.html")
    live, _, _ = run(program, "--open", "-o", page, "--span", "job=job_begin..job_end:job->id/id", pairs=100)
    keys = sorted(json.loads(fields[2])["key"] for fields in lines_of_page(page, "o"))
    TAP.check("a page has the open spans", [] if keys == sorted(each["key"] for each in live["span"]) and keys else [str(keys)])
    found = [json.loads(fields[1]) for fields in lines_of_page(page, "S")]
    expected = [{key: value for key, value in each.items() if key != "type"} for each in live["span_summary"]]
    TAP.check("and the numbers of all", [] if found == expected and found else [str(found)])
    live, _, _ = run(program, "--open", "--by", "size", "--weight", "size", "-o", page, *HEAP, pairs=1)
    found = sorted((int(fields[2]), int(fields[3]), json.loads(fields[5])) for fields in lines_of_page(page, "k"))
    expected = sorted((each["count"], each["sum"], {value["name"]: value["value"] for value in each["by"]}) for each in live["count"])
    TAP.check("sums of open spans by values are in a page, too", [] if found == expected and found else [str(found), str(expected)])
    TAP.check("and are said to be open", [] if all(each["open"] for each in live["count"]) else [str(live["count"][:1])])


def check_leaks(program, folder):
    records, _, _ = run(program, "--open", "--stack", "--weight", "size", *HEAP, pairs=1)
    found = {}
    for each in records["count"]: # the calls in main() are several
        names = tuple([frame["symbol"] for frame in each["stack"] or []][:2])
        count, total = found.get(names, (0, 0))
        found[names] = (count + each["count"], total + each["sum"])
    expected = {("grow_thing", "main"): (1, 70000), ("make_thing", "leak_large"): (5, 5000),
                ("make_thing", "leak_small"): (20, 200), ("make_into", "main"): (1, 31)}
    TAP.check("what was not freed is summed by the stack of its beginning", [] if found == expected else [str(found)])
    files = [os.path.join(folder, name) for name in ("leaks", "live.folded", "saved.folded")]
    run(program, "--open", "--stack", "--weight", "size", "--save", files[0], "--folded", files[1], *HEAP, pairs=1)
    shown = subprocess.run([UPROBECTL, "report", "--folded", files[2], files[0]], capture_output=True, text=True, timeout=60)
    live, saved = ("".join(sorted(Path(each).read_text().splitlines(True))) for each in files[1:])
    TAP.check("a saved run has the stacks of what was not freed, as the run itself",
              [] if live == saved and "leak_large;make_thing 5000" in live else [shown.stderr, live, saved])
    by_values = os.path.join(folder, "values.folded")
    run(program, "--open", "--by", "size,stack", "--weight", "size", "--folded", by_values, *HEAP, pairs=1)
    by_values = "".join(sorted(Path(by_values).read_text().splitlines(True)))
    TAP.check("sums by values and stacks have the same stacks", [] if by_values == live else [by_values, live])
    sums = [each["sum"] for each in records["count"]]
    TAP.check("the largest sum is the first", [] if sums == sorted(sums, reverse=True) else [str(sums)])
    TAP.check("null pointers are counted, and are no spans",
              differences(summary(records, "heap"), {"null_keys": 2, "not_begun": 0, "unread_keys": 0, "open": 27}))


def check_exits(program):
    """The six calls of two_exits() leave it at two instructions, and are one row."""
    ways = {"spans": (["--open", "--stack=fp", "--span", "exit=two_exits%return..drop_thing:arg0/thing"], []),
            "frame pointers": (["--count", "--return", "--stack=fp"], ["two_exits"]),
            "unwound stacks": (["--count", "--return", "--stack"], ["two_exits"]),
            "calls": (["--count", "--latency", "--stack"], ["two_exits"]),
            "groups": (["--count", "--return", "--by", "stack"], ["two_exits"])}
    problems = []
    for way, (options, functions) in ways.items():
        records, _, _ = run(program, *options, functions=functions, pairs=1)
        rows = [(each["count"], [frame["symbol"] for frame in each["stack"]][:2], each["stack"][0]["symbol_offset"])
                for each in records["count"]]
        if rows != [(6, ["two_exits", "both_exits"], "0x0")]:
            problems.append(f"{way}: {rows}")
    TAP.check("stacks at the exits of a function are those of the function", problems)


def check_threads(program):
    records, _, _ = run(program, "--span", "o=outer..outer%return", "--span", "i=job_end..outer%return", pairs=1)
    spans = collections.Counter(each["name"] for each in records["span"])
    TAP.check("spans of a thread from a function to another one, and to its own return",
              [] if spans["o"] == 3 and spans["i"] == 3 else [str(spans)])
    outer = [each["duration_ns"] for each in records["span"] if each["name"] == "o"]
    inner = [each["duration_ns"] for each in records["span"] if each["name"] == "i"]
    TAP.check("what begins later is shorter", [] if all(a > b for a, b in zip(outer, inner)) else [str((outer, inner))])


def check_filters(program):
    records, logged, _ = run(program, "--if", "size==100", "--span", "job=job_begin..job_end:job->id/id")
    TAP.check("conditions are those of the beginning", differences(
        summary(records, "job"), {"begun": logged["begun_again"], "ended": logged["begun_again"], "open": 0}))
    records, logged, _ = run(program, "--count", "--histogram", "--span", "job=job_begin..job_end:job->id/id")
    TAP.check("counts and histograms have the spans that ended", [
        f"{kind}: {each}" for kind in ("count", "histogram") for each in records[kind]
        if each["count"] != logged["ended"] or each["span"] != "job"] or
        ([] if records["count"] and records["histogram"] else ["none"]))
    records, _, _ = run(program, "--min-latency", "30s", "--span", "job=job_begin..job_end:job->id/id", pairs=100)
    TAP.check("spans that are shorter are counted", [] if not records["span"] and
              summary(records, "job").get("shorter") == summary(records, "job").get("ended") else [str(records)])


JOB = ("--span", "job=job_begin..job_end:job->id/id")


def sizes_that_end(pairs):
    """How often job_begin(job, size) is the beginning of a span that ends."""
    sizes = collections.Counter(100 if i % 1000 == 999 else i % 7 for i in range(pairs))
    return {size: count * THREADS for size, count in sizes.items()}


def counted(records, name):
    return {value(each["by"], name): each["count"] for each in records["count"]}


def check_values(program, folder):
    file = os.path.join(folder, "values")
    records, logged, _ = run(program, "--count", "--by", "size", "--measure", "latency", *JOB)
    expected = sizes_that_end(PAIRS)
    lost = sum(each["count"] for each in records["lost"])
    TAP.check("spans are counted by a value of FROM", [] if lost or counted(records, "size") == expected else
              [f"{counted(records, 'size')} instead of {expected}"])
    TAP.check("the duration is summed up", [str(each) for each in records["count"] if not each["sum"] > 0])
    records, logged, _ = run(program, "--count", "--by", "key,to.id,to.comm", *JOB, pairs=50)
    rows = [(value(each["by"], "key"), value(each["by"], "to.id"), value(each["by"], "to.comm"), each["count"])
            for each in records["count"]]
    TAP.check("spans are counted by their key and by values of TO", [] if len(rows) == 16 * THREADS and all(
        key == end and comm == "jobs" for key, end, comm, _ in rows) and
        sum(row[3] for row in rows) == logged["ended"] else [str(rows[:3])])
    records, logged, _ = run(program, "--histogram", "--measure", "size", *JOB, pairs=1000)
    expected = sizes_that_end(1000)
    found = [(each["span"], each["count"], each["min"], each["max"]) for each in records["histogram"]]
    TAP.check("a value of FROM is measured", [] if found == [("job", sum(expected.values()), 0, 100)] else [str(found)])
    records, _, _ = run(program, "--open", "--by", "size", "--weight", "size", *HEAP, pairs=1)
    found = {value(each["by"], "size"): (each["count"], each["sum"]) for each in records["count"]}
    expected = {70000: (1, 70000), 1000: (5, 5000), 10: (20, 200), 31: (1, 31)}
    sums = [each["sum"] for each in records["count"]]
    TAP.check("open spans are summed up by values, the largest first",
              [] if found == expected and sums == sorted(sums, reverse=True) else [str(found)])
    run(program, "--save", file, *JOB, pairs=1000)
    shown = subprocess.run([UPROBECTL, "report", "-j", "--count", "--by", "size", file], capture_output=True, text=True,
                           timeout=60)
    rows = [json.loads(line) for line in shown.stdout.splitlines()]
    found = {value(each["by"], "size"): each["count"] for each in rows if each["type"] == "count"}
    TAP.check("a saved run is counted by the same values", [] if found == sizes_that_end(1000) else
              [shown.stderr, str(found)])
    check_saved_durations(file)


def check_saved_durations(file):
    """The durations of a saved run: counted here from its records."""
    def report(*options):
        done = subprocess.run([UPROBECTL, "report", "-j", *options, file], capture_output=True, text=True, timeout=60)
        return [json.loads(line) for line in done.stdout.splitlines()], done.stderr

    records, _ = report()
    durations = [each["duration_ns"] for each in records if each["type"] == "span"]
    records, messages = report("--histogram")
    found = [(each["span"], each["count"], each["min"], each["max"], each["total"]) for each in records
             if each["type"] == "histogram"]
    expected = [("job", len(durations), min(durations), max(durations), sum(durations))]
    TAP.check("the durations of a saved run are measured", [] if found == expected else [messages, str(found), str(expected)])
    records, messages = report("--count", "--by", "size", "--measure", "latency")
    found = sum(each["sum"] for each in records if each["type"] == "count")
    TAP.check("and summed up by values", [] if found == sum(durations) else [messages, f"{found}, not {sum(durations)}"])
    middle = sorted(durations)[len(durations) // 2]
    records, messages = report("--min-latency", f"{middle}ns")
    found = sum(each["type"] == "span" for each in records)
    expected = sum(each >= middle for each in durations)
    TAP.check("and the short ones left out", [] if found == expected else [messages, f"{found}, not {expected}"])


def check_end_conditions(program, folder):
    """The ids of thread 0 are those below 17."""
    file = os.path.join(folder, "ends")
    conditions = {"to.id < 17": PAIRS, "to.id < 17 && size == 100": PAIRS // 1000, "latency < 30s": PAIRS * THREADS,
                  "latency > 30s": 0, "!(latency >= 30s) && to.tid != 0": PAIRS * THREADS,
                  "size == 100 && latency <= 30s": PAIRS // 1000 * THREADS}
    problems = []
    for condition, expected in conditions.items():
        records, _, messages = run(program, "--count", "--if", condition, *JOB)
        found = sum(each["count"] for each in records["count"])
        if found != expected:
            problems.append(f"{condition}: {found} instead of {expected} {messages}")
    TAP.check("conditions on the end and the duration are decided in the kernel", problems)
    records, logged, _ = run(program, "--count", "--if", "to.id < 17", *JOB)
    TAP.check("spans that a condition on the end leaves out have ended", differences(
        summary(records, "job"), {"ended": logged["ended"], "not_selected": PAIRS * (THREADS - 1)}))
    run(program, "--save", file, *JOB, pairs=1000)
    problems = []
    for condition, expected in {"to.id < 17": 1000, "size == 100 || to.id == 1": 63 + THREADS,
                                "latency < 30s": 1000 * THREADS, "latency > 30s": 0}.items():
        shown = subprocess.run([UPROBECTL, "report", "-j", "--if", condition, file], capture_output=True, text=True,
                               timeout=60)
        found = sum(json.loads(line)["type"] == "span" for line in shown.stdout.splitlines())
        if found != expected:
            problems.append(f"{condition}: {found} instead of {expected} {shown.stderr}")
    TAP.check("the same conditions select spans of a saved run", problems)
    mixed = subprocess.run([UPROBECTL, "attach", "--if", "size == 1 || to.id == 1", *JOB, program, "--", program],
                           capture_output=True, text=True, timeout=60)
    TAP.check("a condition that mixes both ends is refused",
              [] if mixed.returncode == 2 and "joined by && only" in mixed.stderr else [mixed.stderr])


def check_refusals(program):
    refused = {("--open", "--by", "to.id"): "only values of FROM", ("--open", "--stack", "--weight", "to.id"):
               "only values of FROM", ("--open", "--by", "size", "--measure", "latency"): "cannot be combined",
               ("--open", "--min-latency", "1s"): "cannot be combined"}
    problems = []
    for options, message in refused.items():
        done = subprocess.run([UPROBECTL, "attach", "-d", "1s", *options, *JOB, program, "--", program],
                              capture_output=True, text=True, timeout=60)
        if done.returncode != 2 or message not in done.stderr:
            problems.append(f"{options}: {done.returncode} {done.stderr}")
    TAP.check("what open spans do not have is refused", problems)
    done = subprocess.run([UPROBECTL, "attach", "-d", "1s", "--count", "--by", "to.tid", program, "job_begin", "--",
                           program], capture_output=True, text=True, timeout=60)
    TAP.check("without spans, to.tid is a member of a variable", [] if done.returncode != 0 and
              "no parameter or variable 'to'" in done.stderr else [done.stderr])


def check_bounds(program):
    records, _, _ = run(program, "--start-on", "both_exits", *JOB, pairs=10)
    TAP.check("nothing begins before the recording starts", differences(
        summary(records, "job"), {"begun": 0, "ended": 0, "open": 0}))
    records, logged, _ = run(program, "--stop-on", "both_exits", *JOB, pairs=10)
    TAP.check("what ends before the recording stops is counted", differences(
        summary(records, "job"), {"begun": logged["begun"], "ended": logged["ended"]}))
    records, _, _ = run(program, "--keep", "5", "--until", "both_exits", "--stack=fp", *JOB, pairs=100)
    TAP.check("spans before a trigger are written",
              [] if len(records["span"]) == 5 and len(records["trigger"]) == 1 and
              all(each["end_stack"] for each in records["span"]) else [f"{len(records['span'])} {records['trigger']}"])
    records, _, _ = run(program, "--keep", "1", "--until", "to.id == 1 && latency < 30s", *JOB, pairs=1)
    TAP.check("a span whose end fulfils a condition is a trigger",
              [] if len(records["trigger"]) == 1 and 1 in [each["key"] for each in records["span"]] else [str(records)])


# Two libraries of one layout take turns at one address: x is the number of the one that calls.
TURNS = """
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
long __attribute__((noinline)) called(long x) { __asm__ volatile("" : "+r"(x)); return x; }
int main(void) {
  void *before = NULL;
  int same = 0;
  for (long i = 0; i < 200; ++i) {
    void *library = dlopen(i % 2 ? "./second.so" : "./first_.so", RTLD_NOW);
    long (*function)(long (*)(long), long) = (long (*)(long (*)(long), long))dlsym(library, i % 2 ? "second" : "first_");
    same += (void *)function == before;
    before = (void *)function;
    function(called, i % 2);
    dlclose(library);
  }
  printf("%d\\n", same);
}
"""
LIBRARY = "long NAME(long (*f)(long), long x) { long r = f(x); __asm__ volatile(\"\" : \"+r\"(r)); return r + 1; }"


def check_unloaded(folder):
    for name in ("first_", "second"):
        subprocess.run(["cc", "-O1", "-fno-omit-frame-pointer", "-shared", "-fPIC", "-x", "c", "-", "-o",
                        f"{folder}/{name}.so"], input=LIBRARY.replace("NAME", name), text=True, check=True)
    program = os.path.join(folder, "turns")
    subprocess.run(["cc", "-O1", "-g", "-fno-omit-frame-pointer", "-x", "c", "-", "-o", program, "-ldl"], input=TURNS, text=True,
                   check=True)
    done = subprocess.run([UPROBECTL, "attach", "-j", "-d", "30s", "--command-output", "same", "--stack=fp", "--span",
                           "call=called..called%return:x/x", program, "--", program], cwd=folder,
                          capture_output=True, text=True, timeout=60)
    spans = [json.loads(line) for line in done.stdout.splitlines()]
    spans = [each for each in spans if each["type"] == "span"]
    wrong, named = [], 0
    for each in spans:
        own, other = ("second", "first_") if each["key"] else ("first_", "second")
        for end, stack in ("begin", each["stack"]), ("end", each["end_stack"]):
            symbols = [frame["symbol"] for frame in stack or []]
            named += own in symbols
            if other in symbols:
                wrong.append(f"{end} {each['key']}: {symbols}")
    if done.returncode != 0:
        print("# " + done.stderr.replace("\n", "\n# "))
    same = int(Path(folder, "same").read_text())
    TAP.check("stacks of both ends have no library that came to the address later",
              wrong[:3] + ([] if len(spans) == 200 and same > 150 else [str(len(spans)), str(same), done.stderr]))
    TAP.check("and most have the one that called", [] if named > 200 else [str(named)])


def check_ended_processes(program):
    children = 20
    records, logged, _ = run(program, "--follow", "--open", *JOB, pairs=1, children=children)
    # Each child is forked from a process that has no job 7 open.
    expected = {"open": logged["open"] + children, "open_of_ended": children, "begun_again": 0}
    TAP.check("open spans of processes that have ended are counted, and listed",
              differences(summary(records, "job"), expected) or
              ([] if sum(each["key"] == 7 for each in records["span"]) == children else [str(len(records["span"]))]))


def check_saved(program, folder):
    file = os.path.join(folder, "run")
    trace = os.path.join(folder, "run.trace.json")
    live, _, _ = run(program, "--save", file, "-o", trace, "--span", "job=job_begin..job_end:job->id/id", pairs=100)
    shown = subprocess.run([UPROBECTL, "report", "-j", file], capture_output=True, text=True, timeout=60)
    saved = collections.defaultdict(list)
    for record in map(json.loads, shown.stdout.splitlines()):
        saved[record["type"]].append(record)
    for kind in ("span", "span_summary"):
        TAP.check(f"a saved run has the same records {kind}",
                  [] if saved[kind] == live[kind] and saved[kind] else [shown.stderr, str(saved[kind][:1])])
    slices = json.loads(Path(trace).read_text())
    begun = [each for each in slices if each["ph"] == "b" and each["name"] == "job"]
    TAP.check("a timeline has a slice for each span", [] if len(begun) == len(live["span"]) else [str(len(begun))])
    graphs = [os.path.join(folder, name) for name in ("live.svg.html", "saved.svg.html")]
    run(program, "--save", file, "--stack=fp", "--flamegraph", graphs[0], *JOB, pairs=100)
    shown = subprocess.run([UPROBECTL, "report", "--flamegraph", graphs[1], file], capture_output=True, text=True,
                           timeout=60)
    live, saved = (Path(each).read_text() for each in graphs)
    TAP.check("a flame graph of a saved run weighs the durations, as that of the run", [] if
              live == saved and 'data-unit="ns"' in live else [shown.stderr, live[:300], saved[:300]])


def main():
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "jobs")
        subprocess.run(["cc", "-O1", "-g", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls", "-pthread", "-o",
                        program, PROGRAM], check=True)
        for mode in ("ring", "perf"):
            check_jobs(program, mode)
        check_open(program)
        check_leaks(program, folder)
        check_exits(program)
        check_threads(program)
        check_filters(program)
        check_values(program, folder)
        check_end_conditions(program, folder)
        check_refusals(program)
        check_bounds(program)
        check_ended_processes(program)
        check_unloaded(folder)
        check_saved(program, folder)
        check_pages(program, folder)
    TAP.done()


main()
