#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""report_agreement.py UPROBECTL
`report` shows of a saved run what `attach` shows with the same options: events that --if selects, counts, histograms
and stacks, over typed values, strings, floating-point numbers, negative numbers, results and latencies. The program is
the same each time, so its calls are, too. The expected calls of conditions are those of Python. Needs root. Prints
TAP."""

import collections
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap

UPROBECTL = str(Path(sys.argv[1]).resolve())
TAP = Tap()

PROGRAM = r"""
#include <chrono>
#include <stdint.h>
#include <string.h>
#include <string>
#include <sys/mman.h>
#include <vector>
#define FUNCTION extern "C" __attribute__((noinline))
#define WORK(value) __asm__ volatile("" ::"r"(value) : "memory")
enum Color { red = -1, green = 0, blue = 7 };
enum class Mode : unsigned char { idle, busy = 200 };
struct Peer { unsigned short port; signed char level; int negative : 5; unsigned kind : 3; };
struct Connection { Peer peer; float ratio; double weight; std::string host; char tag[8]; Mode mode; };
struct Deeper { struct { struct { struct { struct { int left_out; } e; } d; } c; } b; };
struct Deep { int before; Deeper a; int after; };
struct Many { short numbers[4]; std::vector<int> list; };
struct Flags { bool set; std::chrono::duration<double> pause; };
struct Counter { int cpu; long total; __attribute__((noinline)) int add(int n); };
FUNCTION int take(const Connection& c, int n, unsigned u, signed char small, Color color, const char* text) {
  WORK(&c); WORK(n); WORK(u); WORK(small); WORK(color); WORK(text);
  return -n;
}
FUNCTION void deep(const Deep& d, int n) { WORK(&d); WORK(n); }
FUNCTION void many(const Many& m, int n) { WORK(&m); WORK(n); }
FUNCTION void flagged(const Flags& f, int n) { WORK(&f); WORK(n); }
FUNCTION int inner(int n) { WORK(n); return n * 2; }
FUNCTION int outer(int n) { int sum = 0; for (int i = 0; i < 2; ++i) sum += inner(n + i); return sum; }
FUNCTION void nothing(unsigned long big) { WORK(big); }
FUNCTION int shadowed(int tid, int other) { WORK(tid); WORK(other); return tid; }
__attribute__((noinline)) int Counter::add(int n) { WORK(this); WORK(n); return cpu + n; }
int main() {
  if (mlockall(MCL_CURRENT) != 0) return 2; // a literal that is not resident yet is a value that cannot be compared
  Connection c = {};
  Counter counter = {};
  int sum = 0;
  for (int i = -4; i <= 4; ++i) {
    c.peer = {(unsigned short)(i & 1 ? 443 : 80), (signed char)(i & 1 ? 1 : -1), i & 1 ? 3 : -3, i & 1 ? 2u : 5u};
    c.ratio = i / 10.0f;
    c.weight = i == 3 ? __builtin_nan("") : i == 0 ? -0.0 : i * 1.5;
    c.host = i < 0 ? "a.example" : "b.example";
    c.tag[0] = (char)('e' + i);
    c.mode = i > 0 ? Mode::busy : Mode::idle;
    counter.cpu = i;
    const char* text = i == -4 ? nullptr : i & 1 ? "odd text" : "even";
    sum += take(c, i, 4294967290u + i, (signed char)(100 + 10 * i), i < 0 ? red : i == 0 ? green : blue, text);
    sum += outer(i) + counter.add(i) + shadowed(500 + i, i);
    nothing(0xfffffffffffffff0ul + i);
    Deep d = {};
    d.before = i;
    d.after = 2 * i;
    deep(d, i);
    Many m = {{(short)i, 2, 3, 4}, {1, 2}};
    many(m, i);
    Flags f = {false, std::chrono::duration<double>(i / 4.0)};
    const unsigned char byte = (unsigned char)(i & 3);
    memcpy(&f.set, &byte, 1); // a bool of 0 to 3
    flagged(f, i);
  }
  return sum == 123456;
}
"""
CALLS = range(-4, 5)
# What differs from run to run.
CHANGING = re.compile(r'"(time_ns|since_ns|pid|tid|ns_pid|cpu|latency_ns|boottime_ns|monotonic_ns|realtime_ns)":'
                      r'("[^"]*"|\d+|null)')
ADDRESS = re.compile(r"0x[0-9a-f]{6,}")


def run(arguments, ok=True):
    done = subprocess.run(list(map(str, arguments)), capture_output=True, text=True, timeout=120, check=False)
    if ok and done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, arguments))}: {done.stderr}")
    return done


def attempt(name, test):
    try:
        TAP.check(name, test())
    except (RuntimeError, KeyError, IndexError, ValueError) as error:
        TAP.fail(name, error)


def same(what, expected, found):
    return [] if expected == found else [f"{what}: expected {expected}, found {found}"]


class Runs:
    """Runs of the program, each saved once."""

    def __init__(self, program, folder):
        self.program, self.folder, self.saved = program, folder, {}

    def live(self, functions, options, output=("-j",)):
        return run([UPROBECTL, "attach", "-q", "-d", "60", *output, *options, self.program, *functions, "--",
                    self.program]).stdout

    def save(self, functions, options):
        key = (tuple(functions), tuple(options))
        if key not in self.saved:
            path = self.folder / f"{len(self.saved)}.uprobes"
            run([UPROBECTL, "attach", "-q", "-d", "60", *options, "--save", path, "-o", self.folder / "unused",
                 self.program, *functions, "--", self.program])
            self.saved[key] = path
        return self.saved[key]

    def report(self, functions, saved_with, options, output=("-j",)):
        return run([UPROBECTL, "report", "-q", *output, *options, self.save(functions, saved_with)]).stdout


def rows(text, types=("event", "count", "histogram")):
    """The rows of these types, without what differs between runs."""
    found = []
    for line in text.splitlines():
        record = json.loads(line)
        if record["type"] in types:
            line = CHANGING.sub(r'"\1":0', line)
            found.append(ADDRESS.sub("ADDRESS", line))
    return found


def text_rows(text):
    text = re.sub(r"\d\d:\d\d:\d\d[.\d]*", "TIME", text)
    text = re.sub(r"TIME\s+\d+\s+\d+\s", "TIME PID TID ", ADDRESS.sub("ADDRESS", text))
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


ALL = ["take", "inner", "outer", "nothing", "shadowed", "Counter::add"]
# Options of attach that choose what is recorded, and options that choose what is shown of it.
MATRIX = [
    (["take"], [], ["--if", "n > 1"]),
    (["take"], [], ["--if", "n < 0 && u > 4294967288"]),
    (["take"], [], ["--if", "small < 0 || color == blue"]),
    (["take"], [], ["--if", 'text == "even"']),
    (["take"], [], ["--if", "c.ratio > 0.25"]),
    (["take"], [], ["--if", "c.weight < 0", "--if", 'c.host ^= "a."']),
    (["take"], [], ["--if", "arg1 in {-1, 2, 3}"]),
    (["take"], ["--args", "none"], ["--if", "arg1 < 0"]),
    (["take"], ["--args", "none"], ["--if", "arg2:u32 > 4294967292"]),
    (["take"], ["--args", "x:s32@arg1,t:str@arg5"], ["--if", 'x > -3 && t *= "dd"']),
    (["take"], ["--return"], ["--if", "ret < 0"]),
    (["take"], ["--entry", "--return"], ["--if", "ret > 0"]),
    (["take", "nothing"], ["--return"], ["--if", "ret < 0"]),
    (["take"], ["--latency"], ["--if", "n < 0 && ret > 2"]),
    (["take"], ["--latency"], ["--if", "n < 0 || ret == -4"]),
    (["take"], ["--regs"], ["--if", "%REGISTER == 3"]),
    (["Counter::add"], ["--args", "this->cpu,n"], ["--if", "this->cpu < -1 || n >= 3"]),
    (["many"], [], ["--if", "m.numbers[0] > 1"]),
    (["flagged"], [], ["--if", "f.set == 1"]),
    (["flagged"], [], ["--if", "f.set > 1"]),
    (["flagged"], [], ["--if", "!f.set"]),
    (["flagged"], [], ["--if", "f.pause < -0.3"]),
    (["flagged"], [], ["--count", "--by", "f.set", "--measure", "f.set"]),
    (["deep"], [], ["--if", "d.before != 0 && d.after > 2"]),
    (["shadowed"], [], ["--if", "tid == 502"]),
    (["shadowed"], ["--args", "none"], ["--if", "$cpu >= 0"]),
    (ALL, [], ["--count"]),
    (ALL, ["--entry", "--return"], ["--count"]),
    (ALL, ["--latency"], ["--count", "--top", "2"]),
    (ALL, [], ["--count", "--per-process"]),
    (ALL, ["--entry", "--return"], ["--count", "--per-process"]),
    (["take"], [], ["--count", "--by", "n"]),
    (["take"], [], ["--count", "--by", "color,text", "--measure", "n"]),
    (["take"], [], ["--count", "--by", "c.peer.port,c.mode", "--measure", "u"]),
    (["take"], [], ["--count", "--by", "c.peer.negative,c.host", "--measure", "small"]),
    (["take"], [], ["--count", "--by", "c.ratio"]),
    (["take"], [], ["--count", "--by", "arg1", "--if", "n != 0"]),
    (["take"], ["--return"], ["--count", "--by", "ret"]),
    (["take"], ["--entry", "--return"], ["--count", "--by", "n"]),
    (["take"], ["--entry", "--return"], ["--count", "--by", "comm"]),
    (["take"], ["--latency"], ["--count", "--by", "c.peer.level,ret"]),
    (ALL, ["--args", "none"], ["--count", "--by", "comm", "--measure", "arg1"]),
    (["take", "inner"], [], ["--histogram", "--measure", "n"]),
    (["take"], [], ["--histogram", "--measure", "u"]),
    (["take"], [], ["--histogram", "--measure", "c.peer.port", "--if", "n > 0"]),
    (["nothing"], [], ["--histogram", "--measure", "big"]),
    (["take", "outer"], ["--return"], ["--histogram", "--measure", "ret", "--top", "1"]),
    (["take", "shadowed"], [], ["--histogram", "--measure", "arg1"]),
    (ALL, [], ["--count", "--interval", "1h"]),
    (["inner"], [], ["--histogram", "--measure", "n", "--interval", "1h"]),
]


def agreements(runs, register):
    for functions, saved_with, shown in MATRIX:
        shown = [each.replace("REGISTER", register) for each in shown]
        # The values that a live run captures for its conditions, groups and measurements need not be shown.
        name = f"{' '.join(saved_with)} {' '.join(shown)} {' '.join(functions)}".strip()

        def compare(functions=functions, saved_with=saved_with, shown=shown):
            live = rows(runs.live(functions, [*saved_with, *shown]))
            saved = rows(runs.report(functions, saved_with, shown))
            problems = [] if live else ["the run has no rows"]
            return problems + same("JSON rows", live, saved)

        def compare_text(functions=functions, saved_with=saved_with, shown=shown):
            live = text_rows(runs.live(functions, [*saved_with, *shown], output=()))
            saved = text_rows(runs.report(functions, saved_with, shown, output=()))
            return same("text", live, saved)

        attempt(f"the same rows: {name}", compare)
        if "--latency" not in saved_with and "--regs" not in saved_with and "--per-process" not in shown:
            attempt(f"the same text: {name}", compare_text)


def port(i):
    return 443 if i & 1 else 80


def weight(i):
    return float("nan") if i == 3 else i * 1.5


def conditions(runs):
    """Each condition selects the calls that Python's expression does."""
    cases = {
        "n == -3": lambda i: i == -3,
        "n < -1": lambda i: i < -1,
        "u > 4294967292": lambda i: (4294967290 + i) % 2**32 > 4294967292,
        "u == -4": lambda i: (4294967290 + i) % 2**32 == 2**32 - 4,
        "u < 0x80000000": lambda i: False,
        "small < 0": lambda i: 100 + 10 * i > 127,
        "small & 0x80": lambda i: 100 + 10 * i > 127,
        "color == red": lambda i: i < 0,
        "color in {green, blue}": lambda i: i >= 0,
        "c.mode == Mode::busy": lambda i: i > 0,
        "c.peer.port == 443": lambda i: port(i) == 443,
        "c.peer.negative < 0 && c.peer.kind == 5": lambda i: not i & 1,
        "c.ratio > 0.25": lambda i: i / 10 > 0.25,
        "c.ratio in {0.3, -0.1}": lambda i: i in (3, -1),
        "!c.ratio": lambda i: i == 0,
        "c.weight < 0": lambda i: weight(i) < 0,
        "c.weight == 0": lambda i: weight(i) == 0,
        "c.weight != 6": lambda i: weight(i) != 6,
        "!(c.weight < 3)": lambda i: not weight(i) < 3,
        'c.host == "a.example"': lambda i: i < 0,
        'c.host in {"b.example", "z"}': lambda i: i >= 0,
        'c.tag ^= hex"65"': lambda i: i == 0,
        'c.tag == "f"': lambda i: i == 1,
        'text ~ "*t?xt"': lambda i: i & 1 and i != -4,
        "text == 0": lambda i: i == -4,
        "text": lambda i: i != -4,
        "arg1 < -2": lambda i: i < -2,
        "n > 0 && (small < 0 || !(u > 4294967292))": lambda i: i > 0 and (
            100 + 10 * i > 127 or not (4294967290 + i) % 2**32 > 4294967292),
        'thread == "calls"': lambda i: True,
        "$pid != 1": lambda i: True,
    }
    for condition, holds in cases.items():
        def check(condition=condition, holds=holds):
            events = [json.loads(line) for line in rows(runs.report(["take"], [], ["--if", condition]))]
            found = [next(value["value"] for value in each["arguments"] if value["name"] == "n") for each in events]
            return same("n", [i for i in CALLS if holds(i)], found)
        attempt(f"report --if '{condition}'", check)


def trees(runs):
    functions, options = ["outer", "inner"], ["--graph", "--report"]

    def calls(text):
        return [(each["symbol"], each["depth"]) for each in map(json.loads, text.splitlines())
                if each["type"] == "event" and each["kind"] == "entry"]

    def summaries(text):
        return [(each["symbol"], each["calls"]) for each in map(json.loads, text.splitlines())
                if each["type"] == "call_summary"]

    for condition in ("n > 2", "n == 0", "n < -3"):
        def compare(condition=condition):
            live = runs.live(functions, [*options, "--if", condition])
            saved = runs.report(functions, options, ["--if", condition])
            return same("calls", calls(live), calls(saved)) + same("functions", sorted(summaries(live)),
                                                                  sorted(summaries(saved))) + \
                ([] if calls(live) and summaries(live) else ["no calls"])
        attempt(f"a tree of calls with --if '{condition}'", compare)

    def counted():
        expected = collections.Counter()
        for i in CALLS:
            expected["outer", i, 4 * i + 2] += 1
            for n in (i, i + 1):
                expected["inner", n, 2 * n] += 1
        lines = runs.report(functions, options, ["--count", "--by", "n,ret"]).splitlines()
        found = {(each["symbol"], *(value["value"] for value in each["by"])): each["count"]
                 for each in map(json.loads, lines) if each["type"] == "count"}
        return same("counts", dict(expected), found)
    attempt("calls of a tree are counted by their arguments and results", counted)


def folded(path):
    lines = collections.Counter()
    for line in path.read_text().splitlines():
        stack, _, count = line.rpartition(" ")
        lines[ADDRESS.sub("ADDRESS", stack)] += int(count)
    return lines


def stacks(runs):
    for value in ("n", "u", "ret", "c.peer.port"):
        def weights(value=value):
            live, saved = runs.folder / "live.folded", runs.folder / "saved.folded"
            extra = ["--latency"] if value == "ret" else []
            runs.live(["take"], [*extra, "--stack", "--weight", value, "--folded", live])
            runs.report(["take"], [*extra, "--stack"], ["--weight", value, "--folded", saved])
            return same("stacks", folded(live), folded(saved)) + ([] if folded(saved) else ["no stacks"])
        attempt(f"stacks weigh the same: --weight {value}", weights)

    for functions in (["inner"], ["take", "inner"]):
        def counted(functions=functions):
            live = rows(runs.live(functions, ["--stack", "--count"]))
            saved = rows(runs.report(functions, ["--stack"], ["--count", "--stack"]))
            by = rows(runs.report(functions, ["--stack"], ["--count", "--by", "stack"]))
            grouped = [line.replace('"by":null', '"by":[]') for line in live]
            return same("rows", live, saved) + same("rows of --by", sorted(grouped), sorted(by)) + \
                ([] if len(live) > len(functions) else [f"{len(live)} stacks"])
        attempt(f"stacks are counted: {' '.join(functions)}", counted)

    def filtered():
        live, saved = runs.folder / "live.folded", runs.folder / "saved.folded"
        runs.live(["inner"], ["--stack", "--if", "n > 3", "--folded", live])
        runs.report(["inner"], ["--stack"], ["--if", "n > 3", "--folded", saved])
        return same("stacks", folded(live), folded(saved)) + ([] if folded(saved) else ["no stacks"])
    attempt("--if selects stacks", filtered)


def refused(runs, functions, saved_with, options, *texts):
    done = run([UPROBECTL, "report", *options, runs.save(functions, saved_with)], ok=False)
    if done.returncode == 0:
        return ["it was accepted"]
    return [f"no '{text}' in: {done.stderr}" for text in texts if text not in done.stderr] + \
        (["rows before the error"] if done.stdout else [])


def registers(runs, functions, options):
    """What is said of results of functions that have none."""
    saved = runs.save(functions, ["--return"])
    said = run([UPROBECTL, "report", *options, saved]).stderr
    return same("warnings", ["uprobectl: warning: nothing: 'ret' reads a register: the function returns nothing"],
                [line for line in said.splitlines() if "reads a register" in line])


def warnings(runs):
    both = ["nothing", "inner"]
    for name, options in {"groups": ["--count", "--by", "ret"], "distributions": ["--histogram", "--measure", "ret"],
                          "conditions": ["--if", "ret == 2"]}.items():
        attempt(f"report says of {name} by results which functions have none",
                lambda options=options: registers(runs, both, options))


def refusals(runs):
    cases = {
        "a value that was not saved": (["take"], ["--args", "n"], ["--if", "u == 3"],
                                       "'u' was not saved", "attach --args 'u' --save", "n"),
        "a parameter with the name of a built-in variable": (["shadowed"], ["--args", "other"], ["--if", "tid == 3"],
                                                             "'tid' was not saved"),
        "an address instead of a member": (["take"], ["--args", "u"], ["--if", "c.peer.port == 80"],
                                           "'c.peer.port' was not saved"),
        "a latency that was not saved": (["take"], [], ["--if", "latency > 1ms"], "saved without --latency"),
        "the user": (["take"], [], ["--if", "uid == 0"], "not saved with events"),
        "the name of the process": (["take"], [], ["--if", 'process == "calls"'], "not saved with events"),
        "entry and return": (["take"], ["--entry", "--return"], ["--if", "n == 1 && ret == 2"], "which are two events"),
        "groups by values of the entry and of the return": (
            ["take"], ["--entry", "--return"], ["--count", "--by", "n,ret"], "two events", "--latency"),
        "an element after the last one": (["many"], [], ["--if", "m.numbers[4] == 1"], "short int[4] has 4 elements"),
        "a vector as a number": (["many"], [], ["--if", "m.list == 3"], "only numbers can be compared or measured"),
        "a structure": (["take"], [], ["--if", "c.peer == 3"], "only numbers can be compared or measured",
                        "name one of its members: port"),
        "a string as a number": (["take"], [], ["--if", "c.host == 3"], "it is a string"),
        "a number as a string": (["take"], [], ["--if", 'n == "x"'], "cannot be compared with a string"),
        "a value that the type cannot have": (["take"], [], ["--if", "small == 300"], "cannot have this value"),
        "a floating-point number to measure": (["take"], [], ["--histogram", "--measure", "c.ratio"],
                                               "only integers can be measured"),
        "a value to group by": (["take"], ["--args", "n"], ["--count", "--by", "u"], "'u' was not saved"),
        "a value to weigh": (["take"], ["--args", "n", "--stack"], ["--weight", "u", "--folded", "unused.folded"],
                             "'u' was not saved"),
        "stacks that were not saved": (["take"], [], ["--weight", "n", "--folded", "unused.folded"],
                                       "saved without --stack"),
        "events that were not saved": (["take"], ["--count"], ["--if", "n == 1"], "hits were only counted"),
    }
    for name, (functions, saved_with, options, *texts) in cases.items():
        attempt(f"report refuses {name}", lambda functions=functions, saved_with=saved_with, options=options,
                texts=texts: refused(runs, functions, saved_with, options, *texts))


def main():
    compiler = shutil.which("g++") or shutil.which("clang++")
    if os.geteuid() != 0 or compiler is None:
        print("1..0 # SKIP needs root and a compiler")
        return
    register = {"x86_64": "rsi", "aarch64": "x1"}[os.uname().machine]
    with tempfile.TemporaryDirectory(prefix="report-agreement-") as name:
        folder = Path(name)
        os.chdir(folder)
        source, program = folder / "calls.cpp", folder / "calls"
        source.write_text(PROGRAM)
        subprocess.run([compiler, "-g", "-O1", "-fno-omit-frame-pointer", "-o", program, source], check=True)
        runs = Runs(program, folder)
        conditions(runs)
        agreements(runs, register)
        trees(runs)
        stacks(runs)
        warnings(runs)
        refusals(runs)
        os.chdir("/")
    TAP.done()


main()
