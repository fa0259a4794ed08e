#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""rare_values.py UPROBECTL
Values that few programs have are right, or said not to be known: texts that are not UTF-8, large enumerations, bits of
swapped bytes, times, bit-fields of 100 bits, names at a line inside of an inlined call, variables of many scopes with
the same name, values that clang passes in another way, results of a copy with fewer parameters, and the calls of a
process that is not probed. Needs root. Prints TAP."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap

UPROBECTL = str(Path(sys.argv[1]).resolve())
TAP = Tap()

C_PROGRAM = r"""
#include <stdint.h>
struct __attribute__((scalar_storage_order("big-endian"))) Ip { uint8_t version : 4, ihl : 4; uint16_t length; };
struct Wide { unsigned __int128 id : 100; unsigned __int128 tag : 28; };
__attribute__((noipa)) int header(struct Ip* ip, int n) { return ip->ihl + n; }
__attribute__((noipa)) int wide(struct Wide wide, int n) { return (int)wide.tag + n; }
__attribute__((noipa)) void take(unsigned long size) { __asm__ volatile("" ::"r"(size)); }
__attribute__((noipa)) void good(void) { for (int i = 0; i < 3; ++i) take(100); take(1); }
__attribute__((noipa)) void bad(void) { take(-1); take(1ul << 63); take(7); }
__attribute__((noipa)) void add(int change) { __asm__ volatile("" ::"r"(change)); }
__attribute__((noipa)) void change(void) { add(-5); add(10); add(-30); }
int main(void) {
  bad(); good(); change();
  struct Ip ip = {4, 5, 20};
  struct Wide k = {((unsigned __int128)1 << 99) + 3, 9};
  return header(&ip, 1) + wide(k, 7) != 22;
}
"""
# gcc makes change() a copy without `factor`, which a child calls.
COPY_PROGRAM = r"""
#include <sys/wait.h>
#include <unistd.h>
static __attribute__((noinline)) int change(int value, int factor) {
  __asm__ volatile("" ::: "memory");
  for (int i = 0; i < factor; ++i) value -= i * 2;
  return value;
}
int main(int argc, char** argv) {
  (void)argv;
  if (fork() == 0) {
    volatile int sum = 0;
    for (int i = 0; i < 5; ++i) sum += change(argc + i, 3);
    _exit(0);
  }
  int status;
  return wait(&status) < 0;
}
"""
# The line of taxed() is probed where it is inlined into total().
CXX_PROGRAM = r"""
#include <chrono>
#include <cstdint>
#include <initializer_list>
using std::chrono::milliseconds;
#define FUNCTION extern "C" __attribute__((noinline))
volatile int sink;
enum class Id : std::uint64_t {};
struct Item { int price; inline int taxed(int rate) const {
    sink = price + rate;
    return price * rate;
  }
};
struct Cart { Item item; int price; __attribute__((noinline)) int total(int rate); };
int Cart::total(int rate) { int sum = item.taxed(rate + 1); sink = rate; return sum + price; }
FUNCTION void text(const char* s) { __asm__ volatile("" ::"r"(s) : "memory"); }
FUNCTION void identify(Id id) { __asm__ volatile("" ::"r"(id) : "memory"); }
FUNCTION void wait(milliseconds whole, const std::chrono::duration<double>& real) {
  __asm__ volatile("" ::"r"(&whole), "r"(&real) : "memory");
}
int main() {
  for (const int ms : {249, 250, 251, -250}) wait(milliseconds(ms), std::chrono::duration<double>(milliseconds(ms)));
  Cart cart{{30}, 500};
  int sum = cart.total(1);
  for (int i = 0; i < 5; ++i) text("caf\xe9");
  for (int i = 0; i < 3; ++i) text("caf\xe8");
  identify(Id(0xf000000000000000));
  return sum != 560;
}
"""
# Each name is also that of a global variable.
SCOPES_PROGRAM = r"""
int level = 1001, own = 1003, based = 1005, global = 1006, hidden = 1007, inner = 1010, limit = 1011;
struct Base { static int based; };
int Base::based = 5;
#define FUNCTION __attribute__((noinline))
struct Meter : Base {
  static int level;
  static constexpr int limit = 12;
  FUNCTION int measure(int n);
  FUNCTION Meter();
};
int Meter::level = 1;
Meter::Meter() {
  static int own = 4;
  __asm__ volatile("" ::"r"(&own) : "memory");
}
int Meter::measure(int n) {
  static int own = 3;
  __asm__ volatile("" ::"r"(this) : "memory");
  own += n;
  return own + level + based + limit;
}
namespace shop {
int global = 6;
namespace { int hidden = 7; }
inline namespace v1 { int inner = 10; }
namespace deep {
FUNCTION int find(int n) {
  global += n, hidden += n, inner += n;
  __asm__ volatile("" ::: "memory");
  return global + hidden + inner;
}
} // namespace deep
} // namespace shop
int main() { Meter meter; return meter.measure(0) + shop::deep::find(0) != 21 + 23; }
"""
# gcc moves the halves of `whole` in the first instructions.
PASSING_PROGRAM = r"""
#define FUNCTION __attribute__((noinline))
struct Text { int size; short units[]; };
volatile int sink;
FUNCTION int after(int a, int b, int c, int d, int e, __int128 wide, int last) { return a + b + c + d + e + (int)wide + last; }
FUNCTION int flexible(int a, struct Text text, int b) { return a + text.size + b; }
FUNCTION struct Text text(int n) { struct Text made; made.size = n; return made; }
FUNCTION __int128 shift(__int128 whole, int by) { sink = 1; return whole >> by; }
int main(void) {
  struct Text given = {77};
  int sum = after(1, 2, 3, 4, 5, 6, 7) + flexible(1, given, 2) + text(79).size;
  return sum + (int)shift(((__int128)3 << 64) + 5, 2) != 28 + 80 + 79 + 1;
}
"""


def attach(program, *words):
    done = subprocess.run([UPROBECTL, "attach", "-j", "-d", "60s", *words, "--", program], capture_output=True, text=True,
                          timeout=120)
    if done.returncode != 0:
        return done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def of_type(records, kind):
    return [each for each in records if each["type"] == kind] if isinstance(records, list) else [records]


def values_of(records):
    """Of the events, each value by its name, or None if it is not known."""
    return [{each["name"]: each["value"] for each in event["arguments"]} if isinstance(event, dict) else event
            for event in of_type(records, "event")]


def main():
    if os.geteuid() != 0 or not shutil.which("gcc"):
        TAP.skip("rare values", "not root" if os.geteuid() != 0 else "no program 'gcc'")
        return TAP.done()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, text, compiler in (("rare.c", C_PROGRAM, ["gcc", "-O0"]), ("cart.cpp", CXX_PROGRAM, ["g++", "-O2"]),
                                     ("copy.c", COPY_PROGRAM, ["gcc", "-O2"])):
            (folder / file).write_text(text)
            subprocess.run([*compiler, "-g", "-o", folder / Path(file).stem, folder / file], check=True)
        rare, cart = str(folder / "rare"), str(folder / "cart")

        found = values_of(attach(rare, "--args", "ip->version,ip->ihl,ip->length", rare, "header"))
        TAP.check("bits of one byte whose order is swapped", [] if found == [{"ip->version": 4, "ip->ihl": 5, "ip->length": 20}]
                  else [found])
        found = of_type(attach(rare, "--if", "ip->version == 4", rare, "header"), "event")
        TAP.check("a condition on them is right or refused", [] if len(found) == 1 and
                  (isinstance(found[0], dict) or "other order" in found[0]) else [found])
        found = values_of(attach(rare, rare, "wide"))
        TAP.check("after bit-fields of 100 bits a parameter is right or not known",
                  [] if len(found) == 1 and isinstance(found[0], dict) and found[0]["n"] in (7, None) else [found])

        for compiler, options in (("g++", "-O0"), ("g++", "-O2"), ("clang++-19", "-O2")):
            if not shutil.which(compiler):
                TAP.skip(f"scopes, {compiler}", f"no program '{compiler}'")
                continue
            scopes = folder / f"scopes{options}-{compiler}"
            (folder / "scopes.cpp").write_text(SCOPES_PROGRAM)
            subprocess.run([compiler, "-g", options, "-o", scopes, folder / "scopes.cpp"], check=True)
            found = values_of(attach(scopes, "--args", "level,based,limit,own,::level", scopes, "Meter::measure"))
            found += values_of(attach(scopes, "--if", "global == 6", "--args", "global,hidden,inner,::global", scopes,
                                      "shop::deep::find"))
            found += values_of(attach(scopes, "--args", "own", scopes, "Meter::Meter"))
            TAP.check(f"a name is that of the innermost scope, {compiler} {options}", [] if found == [
                {"level": 1, "based": 5, "limit": 12, "own": 3, "::level": 1001},
                {"global": 6, "hidden": 7, "inner": 10, "::global": 1006}, {"own": 4}] else [found])

        (folder / "passing.c").write_text(PASSING_PROGRAM)
        for compiler, options in (("gcc", "-O0"), ("gcc", "-O1"), ("clang-19", "-O0")):
            if not shutil.which(compiler):
                TAP.skip(f"passing, {compiler}", f"no program '{compiler}'")
                continue
            passing = folder / f"passing{options}-{compiler}"
            subprocess.run([compiler, "-g", options, "-o", passing, folder / "passing.c"], check=True)
            found = [values_of(attach(passing, "--args", names, passing, function))[0]
                     for names, function in (("wide,last", "after"), ("text.size,b", "flexible"), ("whole", "shift"))]
            result = of_type(attach(passing, "--latency", "--args", "n,ret.size", passing, "text"), "event")
            TAP.check(f"wide and open values are passed as by {compiler} {options}", [] if found == [
                {"wide": "6", "last": 7}, {"text.size": 77, "b": 2}, {"whole": "55340232221128654853"}] and
                values_of(result) == [{"n": 79, "ret.size": 79}] else [found, result])

        # Of the callers `good`, `bad` and `change`.
        for function, value, options, expected, unweighed in (
                ("take", "size", ["--stack=fp", "--weight", "size"], {"good": 301, "bad": 7}, 2),
                ("take", "size", ["--count", "--by", "stack", "--measure", "size"], {"good": 301, "bad": 7}, 2),
                ("add", "change", ["--stack=fp", "--weight", "change"], {"change": 10}, 2)):
            folded = folder / f"{options[-2]}-{value}.folded"
            done = subprocess.run([UPROBECTL, "attach", "-d", "60s", *options, "--folded", folded, rare, function, "--",
                                   rare], capture_output=True, text=True, timeout=60)
            lines = [line.rpartition(" ") for line in folded.read_text().splitlines()] if folded.exists() else []
            weights = {stack.split(";")[-2]: int(number) for stack, _, number in lines}
            TAP.check(f"{options[-2]} {options[-1]}: a negative or very large '{value}' hides no other weight",
                      [] if weights == expected and f"warning: {unweighed} hits have no weight" in done.stderr else [weights, done.stderr])

        records = of_type(attach(cart, "--count", "--by", "s", cart, "text"), "count")
        TAP.check("texts that are not UTF-8 are counted apart",
                  [] if sorted(each["count"] for each in records) == [3, 5] else [records])
        found = values_of(attach(cart, cart, "identify"))
        TAP.check("an unsigned enumeration has no negative number", [] if found == [{"id": "17293822569102704640"}] else [found])
        copy = str(folder / "copy")
        for options in (["-r"], ["--latency"]):
            found = [each["return_value"] if isinstance(each, dict) else each for each in
                     of_type(attach(copy, *options, "--follow", copy, "change*"), "event")]
            TAP.check(f"the result of a copy with fewer parameters, {options[0]}", [] if found == [-5, -4, -3, -2, -1] else [found])
        for options in ([], ["-r"], ["--latency"], ["--graph"], ["--histogram"]):
            found = [each["reason"] if isinstance(each, dict) else each for each in
                     of_type(attach(copy, *options, copy, "change*"), "probe")]
            TAP.check(f"a child's calls are counted, not their ends: {' '.join(options)}",
                      [] if found == ["called 5 times, but by none of the processes that are probed; "
                                      "--follow probes child processes, too"] else [found])
        line = 1 + CXX_PROGRAM.splitlines().index("    sink = price + rate;")
        found = values_of(attach(cart, "--args", "rate,price", cart, f"cart.cpp:{line}"))
        TAP.check("at a line of an inlined call names are those of its source", [] if found == [{"rate": 2, "price": 30}] else [found])
        attach(cart, "--save", folder / "all", cart, "wait")
        # Of 249, 250, 251 and -250 ms.
        for condition, holds in (("whole > 250ms", 1), ("whole > 250us", 3), ("whole >= 249500us", 2),
                                 ("whole < 249500us", 2), ("whole <= -0.25s", 1), ("whole < -250100us", 0), ("whole == 250ms", 1),
                                 ("whole in {249ms, 251000us}", 2), ("whole > 250", 1), ("real >= 250ms", 2),
                                 ("real < 249500us", 2)):
            found = of_type(attach(cart, "--if", condition, cart, "wait"), "event")
            report = subprocess.run([UPROBECTL, "report", "-j", "--if", condition, folder / "all"], capture_output=True, text=True)
            saved = [line for line in report.stdout.splitlines() if '"type":"event"' in line.replace(" ", "")]
            TAP.check(f"times are compared in any unit: {condition}",
                      [] if len(found) == len(saved) == holds and isinstance(found, list) else [found, report])
        found = attach(cart, "--if", "whole == 250us", cart, "wait")
        TAP.check("a time that no duration can have is refused", [] if "whole number" in found else [found])
        found = Counter(len(of_type(attach(cart, "--if", condition, cart, f"cart.cpp:{line}"), "event"))
                        for condition in ("rate == 2", "price == 30"))
        TAP.check("also in conditions", [] if found == {1: 2} else [found])
    TAP.done()


main()
