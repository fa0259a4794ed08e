#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""planned_values.py UPROBECTL
A plan that was made from a program with debug information, attached to its stripped copy: values, conditions, counts
and sums are those of a run of the whole program, in JSON and as text, and those that the program passes. Needs root.
Prints TAP."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap

UPROBECTL = str(Path(sys.argv[1]).resolve())
TAP = Tap()

# Calls with i = 1 … 4.
PROGRAM = r"""
#include <memory>
#include <string>
#include <vector>
#define FUNCTION extern "C" __attribute__((noinline))
#define WORK(value) __asm__ volatile("" ::"r"(value) : "memory")
enum class State : unsigned char { idle = 3, busy = 4 };
struct Address { unsigned short port; int zone : 5; unsigned hops : 3; };
struct Peer { Address address; Peer* next; double weight; };
struct Base { int number; };
struct Connection : Base {
  Peer* peer;
  State state;
  std::string host;
  char tag[8];
  std::vector<int> sizes;
  std::unique_ptr<Address> own;
  int grid[2][3];
  union { int whole; unsigned char part; };
};
struct Far4 { int last; };
struct Far3 { Far4* four; };
struct Far2 { Far3* three; };
struct Far1 { Far2* two; };
struct Far { Far1* one; };
int total_calls = 40;
struct Counter {
  int sum;
  __attribute__((noinline)) int add(const std::string& why, int n);
};
FUNCTION int take(Connection& c, const char* name, int n, float ratio) {
  WORK(&c); WORK(name); WORK(n); ++total_calls;
  return -n;
}
FUNCTION State change(State from, const Far* far) { WORK(from); WORK(far); return from == State::idle ? State::busy : State::idle; }
int Counter::add(const std::string& why, int n) { WORK(this); WORK(&why); WORK(n); return sum += n; }
extern "C" __attribute__((noinline, optimize("O0"))) int scale(double by, int n) { return (int)(by * n); }
static inline __attribute__((always_inline)) int price(int pieces, int cents) {
  int sum = 0;
  for (int i = 0; i < pieces; ++i) { __asm__ volatile("" : "+r"(sum)); sum += cents; }
  return sum;
}
FUNCTION int order(int* pieces) { return price(*pieces, 250); }
int main() {
  Peer second = {{443, -2, 5}, nullptr, 0.5}, first = {{80, 3, 1}, &second, 2.25};
  Connection c = {};
  Counter counter = {1000};
  Far4 four = {-7};
  Far3 three = {&four};
  Far2 two = {&three};
  Far1 one = {&two};
  Far far = {&one};
  int sum = 0;
  c.peer = &first;
  c.sizes = {10, 20, 30};
  c.own = std::make_unique<Address>(Address{8080, 1, 2});
  c.grid[1][2] = 23;
  for (int i = 1; i <= 4; ++i) {
    c.number = 100 + i;
    c.state = i % 2 ? State::busy : State::idle;
    c.host = i < 3 ? "a.example" : "a long name of a host.example";
    __builtin_memcpy(c.tag, "tag", 4);
    c.tag[3] = (char)('0' + i);
    c.whole = -i;
    sum += take(c, i % 2 ? "odd" : "even", -i, 0.5f * i) + (int)change(c.state, &far);
    sum += counter.add(c.host, i) + scale(1.5 * i, 2) + order(&i);
  }
  return sum == 123456;
}
"""

OPTIONS = {
    # options, functions, a text of the records, their number
    "values of all types": (["--latency"], ["take"], ['"a long name of a host.example"', '"odd"', '"value": -4', '"number": 104'], 4),
    "listed members": (["--args", "c.peer->next->address.port,c.peer->next->address.zone,c.sizes[1],c.own->port,c.number,c.grid[1][2],c.whole"],
                       ["take"], ["443", "-2", "20", "8080", "104", "23"], 4),
    "a condition on a member and on a sign": (["--args", "n", "--if", "c.state == busy && n < -1"], ["take"], ["-3"], 1),
    "a condition on text": (["--args", "name", "--if", "c.host == 'a.example' && name == 'odd'"], ["take"], ["odd"], 1),
    "a floating-point member": (["--args", "c.peer->weight", "--if", "c.peer->weight > 2"], ["take"], ["2.25"], 4),
    "counts by text": (["--count", "--by", "c.host"], ["take"], ["a.example", "a long name of a host.example"], 2),
    "counts by an enumerator": (["--count", "--by", "c.state"], ["take"], ["busy", "idle"], 2),
    "sums of a signed number": (["--histogram", "--measure", "n"], ["take"], [], 1),
    "a global variable": (["--args", "total_calls"], ["take"], ["40", "43"], 4),
    "a condition on a global variable": (["--args", "n", "--if", "total_calls >= 42"], ["take"], ["-3", "-4"], 2),
    "more pointers than are shown": (["--args", "far->one->two->three->four->last"], ["change"], ["-7"], 4),
    "an enumerator that is returned": (["--latency", "--if", "ret == busy"], ["change"], ["busy"], 2),
    "members of the object": (["--args", "this,why,sum"], ["Counter::add"], ["1003", "a.example"], 4),
    "a prologue": ([], ["scale"], ["1.5", "4.5"], 4),
    "a parameter after the prologue": (["--args", "by,n"], ["scale"], ["1.5", "6"], 4),
    "an inlined call": (["--inlined", "--args", "pieces,cents"], ["price"], ["250"], 4),
    "a source line": (["--args", "n"], ["SOURCE:LINE"], ["-1"], None),
    "many functions": (["--latency"], ["take", "change", "scale", "order"], ["busy"], 16),
}
KEPT = ("type", "kind", "symbol", "arguments", "return_value", "by", "count", "hits", "sum", "buckets", "minimum", "maximum", "image_offset", "inlined",
        "weight", "source", "line")


def attach(*arguments):
    command = list(map(str, [UPROBECTL, "attach", *arguments]))
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr}")
    return done


def refusal(*arguments):
    done = subprocess.run(list(map(str, [UPROBECTL, "attach", *arguments])), capture_output=True, text=True, timeout=120, check=False)
    return done.stderr if done.returncode != 0 else f"accepted: {done.stdout}"


def without_addresses(value):
    """Pointers into the stack and the heap differ from run to run."""
    if isinstance(value, dict):
        return {key: without_addresses(each) for key, each in value.items()}
    if isinstance(value, list):
        return [without_addresses(each) for each in value]
    return "ADDRESS" if isinstance(value, str) and value.startswith("0x") else value


def records(done):
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    found = [{key: without_addresses(record[key]) for key in KEPT if key in record and key != "image_offset"} for record in found
             if record["type"] in ("event", "count", "histogram")]
    return [record for record in found if record["type"] != "count" or "by" in record or len(found) == 1]


def text_of(done, program):
    """Lines of events, without what differs between two runs: times, ids, addresses."""
    lines = []
    for line in done.stdout.splitlines():
        line = line.replace(str(program), "PROGRAM")
        words = [word for word in line.split() if not word.startswith("0x") and "=0x" not in word]
        lines.append(" ".join(words[words.index("take"):]) if "take" in words else "")
    return [line for line in lines if line]


class Comparison:
    def __init__(self, folder, flags):
        self.folder = folder
        (folder / "calls.cpp").write_text(PROGRAM)
        subprocess.run(["g++", "-std=c++17", "-Wl,--build-id", *flags, "calls.cpp", "-o", "whole"], cwd=folder, check=True)
        subprocess.run(["strip", "whole", "-o", "stripped"], cwd=folder, check=True)
        line = next(number for number, text in enumerate(PROGRAM.splitlines(), 1) if "++total_calls" in text)
        self.line = f"calls.cpp:{line}"

    def functions(self, names):
        return [name.replace("SOURCE:LINE", self.line) for name in names]

    def local(self, options, functions, *extra):
        whole = self.folder / "whole"
        return attach("-q", "-d", "60", *extra, *options, whole, *self.functions(functions), "--", whole)

    def planned(self, options, functions, *extra):
        plan, stripped = self.folder / "plan", self.folder / "stripped"
        plan.unlink(missing_ok=True)
        attach("-q", "--write-plan", plan, *options, self.folder / "whole", *self.functions(functions))
        return attach("-q", "-d", "60", *extra, "--plan", plan, stripped, "--", stripped)

    def compare(self, options, functions, texts, number):
        here, there = (records(run(options, functions, "-j")) for run in (self.local, self.planned))
        problems = []
        if here != there:
            pairs = [f"{mine}\n# {other}" for mine, other in zip(here, there) if mine != other]
            problems.append(f"{len(here)} and {len(there)} records; {pairs[:1]}")
        if number is not None and len(here) != number:  # a line may have code at several addresses
            problems.append(f"{len(here)} records, not {number}: {here}")
        problems += [f"no {text} in {here}" for text in texts if text not in json.dumps(here, ensure_ascii=False)]
        return problems

    def texts(self):
        options = ["--args", "n,name,c.host,c.state"]
        here = text_of(self.local(options, ["take"]), self.folder / "whole")
        there = text_of(self.planned(options, ["take"]), self.folder / "stripped")
        return [] if here == there and len(here) == 4 else [f"{here}, {there}"]

    def refusals(self):
        """What the plan does not carry."""
        plan, stripped, whole = self.folder / "plan", self.folder / "stripped", self.folder / "whole"
        problems = []

        def expect(options, run_options, functions, text):
            attach("-q", "--write-plan", plan, *options, whole, *functions)
            said = refusal("-d", "5", "--plan", plan, *run_options, stripped, "--", stripped)
            problems.extend([] if text in said else [f"{options} {run_options}: {said}"])
        expect([], ["--args", "nn"], ["take"], "has no parameter or variable 'nn'")
        expect([], ["--args", "total_calls"], ["take"],
               "a plan has the global variables that its options name: write it with this option")
        expect([], ["--args", "far->one->two->three->four->last"], ["change"], "the plan does not have this type")
        expect(["--count"], ["--if", "c.number == 1"], ["take"], "write the plan with the options that name values")
        said = refusal("--write-plan", plan, "--args", "nn", whole, "take")
        problems += [] if "has no parameter or variable 'nn'" in said else [said]
        said = refusal("--write-plan", plan, "--args", "n", stripped, "main")
        problems += [] if "no function" in said or "no symbols" in said else [said]
        return problems

    def added_options(self):
        """Options that the run with the plan adds."""
        plan, stripped, whole = self.folder / "plan", self.folder / "stripped", self.folder / "whole"
        attach("-q", "--write-plan", plan, whole, "take")
        options = ["--args", "c.peer->address.port", "--if", "c.state == idle"]
        there = records(attach("-q", "-j", "-d", "60", "--plan", plan, *options, stripped, "--", stripped))
        here = records(self.local(options, ["take"], "-j"))
        return [] if here == there and len(here) == 2 else [f"{here}, {there}"]


def main():
    if os.geteuid() != 0 or not shutil.which("g++"):
        print("1..0 # SKIP needs root and g++")
        return
    with tempfile.TemporaryDirectory(prefix="planned-values-") as path:
        for name, flags in [("O2", ["-g", "-O2", "-no-pie"]), ("O0", ["-g", "-O0", "-pie", "-fPIE"])]:
            folder = Path(path) / name
            folder.mkdir()
            comparison = Comparison(folder, flags)
            for title, (options, functions, texts, number) in OPTIONS.items():
                if (name == "O0" and "--inlined" in options) or (name == "O2" and functions == ["scale"]):
                    continue
                attempt(f"{name}: {title}", lambda o=options, f=functions, t=texts, n=number: comparison.compare(o, f, t, n))
            attempt(f"{name}: lines of text", comparison.texts)
            attempt(f"{name}: the run adds options", comparison.added_options)
            attempt(f"{name}: what the plan does not have", comparison.refusals)
    TAP.done()


def attempt(name, test):
    try:
        TAP.check(name, test())
    except (RuntimeError, ValueError, KeyError, subprocess.TimeoutExpired) as error:
        TAP.check(name, [repr(error)])


if __name__ == "__main__":
    main()
