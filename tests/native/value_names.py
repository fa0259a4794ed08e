#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""value_names.py UPROBECTL
A name means the same in --args, --if, --by, --measure and --weight: a parameter, a member behind a path, a built-in
variable or a register, with the sign and the width of its type. The values are those that the program passes, as
Python computes them. Needs root. Prints TAP."""

import collections
import json
import math
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

# Calls with i = -4 … 4. `rdx` and `x2` are names of registers, `cpu` and `tid` of built-in variables.
PROGRAM = r"""
#include <math.h>
#include <stdint.h>
#include <string>
#define FUNCTION extern "C" __attribute__((noinline))
#define WORK(value) __asm__ volatile("" ::"r"(value) : "memory")
struct Peer { unsigned short port; signed char level; int negative : 5; unsigned kind : 3; };
struct Connection {
  Peer* peer;
  float ratio;
  double weight;
  std::string host;
  char tag[8];
  unsigned bytes;
};
struct Counter {
  int cpu;
  long total;
  __attribute__((noinline)) int add(int n);
};
FUNCTION int take(Connection* c, int n, unsigned u, int tid, signed char small) {
  WORK(c); WORK(n); WORK(u); WORK(tid); WORK(small);
  return -n;
}
FUNCTION int other(long n) { WORK(n); return 1; }
FUNCTION int named(int n, int ignored, int REGISTER) { WORK(n); WORK(ignored); WORK(REGISTER); return n; }
__attribute__((noinline)) int Counter::add(int n) { WORK(this); WORK(n); return cpu + n; }
int main() {
  Peer peers[2] = {{80, -1, -3, 5}, {443, 1, 3, 2}};
  Connection c = {};
  Counter counter = {};
  int sum = 0;
  for (int i = -4; i <= 4; ++i) {
    c.peer = &peers[i & 1];
    c.ratio = i / 4.0f;
    c.weight = i == 3 ? NAN : i == 0 ? -0.0 : i * 1.5;
    c.host = i < 0 ? "a.example" : "b.example";
    c.tag[0] = (char)('e' + i);
    c.bytes = 100 + i;
    counter.cpu = i;
    counter.total = -i;
    sum += take(&c, i, 4294967290u + i, 1000 + i, (signed char)(100 + 10 * i));
    sum += other(i) + named(i, 77, 500 + i) + counter.add(i);
  }
  return sum == 123456;
}
"""
CALLS = range(-4, 5)
SECOND_REGISTER = {"x86_64": "rdx", "aarch64": "x2"}[os.uname().machine]


def run(program, functions, *options):
    command = [UPROBECTL, "attach", "-q", "-j", "-d", "60", *options, program, *functions, "--", program]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def refusal(program, functions, *options):
    done = subprocess.run(list(map(str, [UPROBECTL, "attach", "-d", "60", *options, program, *functions, "--",
                                         program])), capture_output=True, text=True, timeout=120, check=False)
    return done.stderr if done.returncode != 0 else "accepted"


def attempt(name, test):
    try:
        TAP.check(name, test())
    except (RuntimeError, KeyError, IndexError, ValueError) as error:
        TAP.fail(name, error)


def same(what, expected, found):
    return [] if expected == found else [f"{what}: expected {expected}, found {found}"]


def hits(program, condition, function="take", *options):
    """The calls that a condition selects, by their n."""
    records = run(program, [function], "--if", condition, "--args", "n", *options)
    return [each["arguments"][0]["value"] for each in records if each["type"] == "event"]


def groups(program, *options, functions=("take",)):
    """Hits by the texts of the values, and sums."""
    records = [each for each in run(program, functions, "--count", *options) if each["type"] == "count"]
    return {tuple(value["value"] for value in each["by"]): (each["count"], each.get("sum")) for each in records}


def port(i):
    return 443 if i & 1 else 80


def weight(i):
    return math.nan if i == 3 else i * 1.5


def conditions(program):
    """Each condition selects the calls that Python's expression does."""
    cases = {
        "c->peer->port == 443": lambda i: port(i) == 443,
        "c->peer->level < 0": lambda i: not i & 1,
        "c->peer->negative < 0 && c->peer->kind == 5": lambda i: not i & 1,
        "c->ratio > 0.5": lambda i: i / 4 > 0.5,
        "c->ratio <= -0.25": lambda i: i / 4 <= -0.25,
        "c->ratio in {0.75, -1, 99}": lambda i: i / 4 in (0.75, -1),
        "c->ratio": lambda i: i != 0,
        "!c->ratio": lambda i: i == 0,
        "c->weight < 0": lambda i: weight(i) < 0,
        "c->weight >= 0": lambda i: weight(i) >= 0,
        "c->weight == 0": lambda i: weight(i) == 0,
        "c->weight != 4.5e0": lambda i: weight(i) != 4.5,
        "!(c->weight < 3)": lambda i: not weight(i) < 3,
        "c->weight > -1e300": lambda i: weight(i) > -1e300,
        'c->host == "a.example"': lambda i: i < 0,
        'c->tag ^= hex"65"': lambda i: i == 0,
        "u > 4294967292": lambda i: (4294967290 + i) % 2**32 > 4294967292,
        "u < 0x80000000": lambda i: False,
        "small < 0": lambda i: 100 + 10 * i > 127,
        "tid == 1002": lambda i: i == 2,
        "arg1 < -2": lambda i: i < -2,
        "arg2 == -4": lambda i: (4294967290 + i) % 2**32 == 2**32 - 4,
        "%" + {"rdx": "rsi", "x2": "x1"}[SECOND_REGISTER] + " == 3": lambda i: i == 3,
        "$tid == 1": lambda i: False,
    }
    for condition, holds in cases.items():
        attempt(f"--if '{condition}'", lambda condition=condition, holds=holds: same(
            "calls", [i for i in CALLS if holds(i)], hits(program, condition)))
    attempt("--if of members without this", lambda: same(
        "calls", [2], hits(program, "total == -2", "Counter::add")))
    attempt("--if of a member with the name of a built-in variable is the variable", lambda: same(
        "calls", [[], [2]], [hits(program, f"cpu == {condition}", "Counter::add")
                             for condition in ("99999", "99999 || this->cpu == 2")]))
    attempt("--if of a parameter with the name of a register", lambda: same(
        "calls", [-1], hits(program, f"{SECOND_REGISTER} == 499", "named")))
    attempt("--if of the result", lambda: same(
        "calls", [3, 4], hits(program, "ret < -2", "take", "--latency")))
    attempt("--if of the result, by its type whatever --args has", lambda: same(
        "calls", [-1, 0, 1, 2, 3, 4], hits(program, "ret < 2", "take", "--latency")))
    attempt("--if of a floating-point number and the result", lambda: same(
        "calls", [i for i in CALLS if weight(i) < 3 and -i < 2],
        hits(program, "c->weight < 3 && ret < 2", "take", "--latency")))


def values(program):
    attempt("--by a path counts as --if selects", lambda: same(
        "groups", {(80,): (5, None), (443,): (4, None)}, groups(program, "--by", "c->peer->port")))
    attempt("--by a path, a sum of another", lambda: same(
        "groups", {(port(k),): (sum(1 for i in CALLS if port(i) == port(k)),
                                sum(100 + i for i in CALLS if port(i) == port(k))) for k in (0, 1)},
        groups(program, "--by", "c->peer->port", "--measure", "c->bytes")))
    attempt("sums have the sign and the width of the type", lambda: same(
        "groups", {("take",): (9, sum((100 + 10 * i + 128) % 256 - 128 for i in CALLS))},
        {("take",): next(iter(groups(program, "--by", "pid", "--measure", "small").values()))}))
    attempt("--by arg1 has the type of the parameter", lambda: same(
        "groups", {(i,): (1, None) for i in CALLS}, groups(program, "--by", "arg1")))
    attempt("--by of several kinds of names", lambda: same(
        "groups", {(i, port(i), 1000 + i): (1, None) for i in CALLS},
        groups(program, "--by", "arg1,c->peer->port,tid")))
    attempt("--by a value that --args does not have", lambda: same(
        "groups", {(443,): (4, None), (80,): (5, None)},
        groups(program, "--args", "n", "--by", "c->peer->port")))
    attempt("--by a declared argument and a path", lambda: same(
        "groups", {(i, port(i)): (1, None) for i in CALLS},
        groups(program, "--args", "number:s32@arg1", "--by", "number,c->peer->port")))

    def histogram(name, function="take"):
        records = run(program, [function], "--histogram", "--measure", name)
        return next(each for each in records if each["type"] == "histogram")

    def measured(name, expected, function="take"):
        found = histogram(name, function)
        return same(name, (len(expected), min(expected), max(expected), sum(expected)),
                    (found["count"], found["min"], found["max"], found["total"]))

    attempt("--measure a path", lambda: measured("c->bytes", [100 + i for i in CALLS]))
    attempt("--measure a member of this", lambda: measured("total", [-i for i in CALLS], "Counter::add"))

    def weights(name, *options):
        run(program, ["take"], "--stack=fp", "--folded", "folded", "--weight", name, *options)
        return sum(int(line.rsplit(" ", 1)[1]) for line in Path("folded").read_text().splitlines())

    attempt("--weight a path", lambda: same("sum", sum(100 + i for i in CALLS), weights("c->bytes")))
    attempt("--weight an argument by number", lambda: same(
        "sum", sum(i for i in CALLS if i > 0), weights("arg1")))
    attempt("--weight a value that --args does not have", lambda: same(
        "sum", sum(1000 + i for i in CALLS), weights("tid", "--args", "n")))


def lists(program):
    def arguments(*options, functions=("take",)):
        records = run(program, functions, *options)
        return [(each["symbol"], {one["name"]: one["value"] for one in each["arguments"]})
                for each in records if each["type"] == "event"]

    attempt("both forms of --args in one list", lambda: same(
        "values", [("take", {"c->peer->port": port(i), "raw": i % 2**32, "n": i}) for i in CALLS],
        arguments("--args", "c->peer->port,raw:u32@arg1,n")))
    attempt("--args FUNCTION= concerns that function alone", lambda: same(
        "values", collections.Counter(
            [("take", (("count", i),)) for i in CALLS] + [("other", (("n", i),)) for i in CALLS]),
        collections.Counter((symbol, tuple(found.items())) for symbol, found in
                            arguments("--args", "take=count:s32@arg1", functions=("take", "other")))))
    attempt("a condition knows the declared name of its function, and the type of the other", lambda: same(
        "calls", collections.Counter({"take": 1, "other": 1}),
        collections.Counter(symbol for symbol, _ in arguments(
            "--args", "take=n:s32@arg1", "--if", "n == -4", functions=("take", "other")))))


def refusals(program):
    def refused(text, *options):
        found = refusal(program, ["take"], *options)
        return [] if text in found else [f"expected '{text}', found: {found}"]

    for option in (["--if", "c->peer->prt == 1"], ["--args", "c->peer->prt"], ["--by", "c->peer->prt", "--count"],
                   ["--histogram", "--measure", "c->peer->prt"], ["--stack", "--weight", "c->peer->prt"]):
        attempt(f"{option[0] if option[0] != '--histogram' else '--measure'} names the member that is meant",
                lambda option=option: refused("did you mean 'port'?", *option))
    for option in (["--by", "m", "--count"], ["--count", "--by", "n", "--measure", "m"], ["--if", "m == 1"],
                   ["--stack", "--weight", "m"]):
        attempt(f"{option[-2]} of a name that neither --args nor the function has", lambda option=option: refused(
            "take has no parameter or variable 'm'", "--args", "n:s32@arg1", *option))
    attempt("a structure is compared with a text", lambda: refused(
        "'*c': only strings can be compared with a text, this is Connection", "--if", '*c == "x"'))
    attempt("a number is compared with a text by its other name", lambda: refused(
        "int cannot be compared with a string", "--if", 'arg1 == "x"'))
    attempt("a built-in variable is not suggested for what is measured", lambda: [] if (
        "did you mean 'tid'" not in refusal(program, ["other"], "--histogram", "--measure", "tix"))
            else ["it is"])
    attempt("a structure is compared with a number", lambda: refused(
        "name one of its members: port, level", "--if", "*c->peer == 1"))
    attempt("a built-in variable is not measured", lambda: refused(
        "'cpu': a built-in variable is not a value of the function", "--histogram", "--measure", "cpu"))
    attempt("hits are counted by some built-in variables only", lambda: refused(
        "hits are counted by pid, tid, cpu, comm and stack", "--count", "--by", "uid"))
    attempt("floating-point numbers are not summed", lambda: refused(
        "only integers can be measured", "--histogram", "--measure", "c->ratio"))
    attempt("addresses are not summed", lambda: refused("it is an address", "--histogram", "--measure", "c"))
    attempt("an integer has no fraction", lambda: refused(
        "int has no fraction or exponent, at character 5", "--if", "n < 0.5"))
    attempt("a text is not a number", lambda: refused(
        "it is a string: compare it with one in quotes, at character 12", "--if", "c->host == 5"))
    attempt("bits of a floating-point number", lambda: refused(
        "a floating-point number has no bits", "--if", "c->ratio & 1"))


def main():
    if os.geteuid() != 0:
        print("1..0 # SKIP only root attaches")
        return
    compilers = [each for each in ("g++", "clang++-19") if shutil.which(each)]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("names.cpp").write_text(PROGRAM.replace("REGISTER", SECOND_REGISTER), encoding="ascii")
        for compiler in compilers:
            program = Path(folder) / f"names-{compiler}"
            subprocess.run([compiler, "-g", "-O1", "-fno-omit-frame-pointer", "-o", program, "names.cpp"], check=True)
            conditions(program)
        values(program)
        lists(program)
        refusals(program)
        os.chdir("/")
    TAP.done()


main()
