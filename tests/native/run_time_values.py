#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""run_time_values.py UPROBECTL
Values whose address only the program knows: members of virtual base classes (C++), and elements of Fortran arrays
that descriptors lead to. Compared with gdb, which stops at the same calls. Needs root. Prints TAP."""

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

BASES = """#include <string>
#include <string_view>
#define FUNCTION __attribute__((noinline, noclone))
#define WORK(value) __asm__ volatile("" ::"r"(value) : "memory")
struct A {
  virtual ~A() = default;
  int a = 1;
};
struct Empty {};
struct B : virtual A, virtual Empty {
  FUNCTION int add(int n);
  int b = 2;
};
struct C : virtual A {
  int c = 3;
};
struct E {
  long e = 5;
};
struct D : E, B, C {
  int d = 4;
};
struct F : virtual D {
  int f = 6;
};
struct Named {
  std::string name = "a name that is longer than 15 characters";
  std::string_view view = "view";
  const char* text = "text";
  unsigned low : 3 = 5, high : 5 = 17;
};
struct G : virtual Named {
  G* next = nullptr;
};
struct V {
  int x = 1;
};
struct W : virtual V {
  int x = 2; // hides that of V
};
struct X : virtual V, virtual W {
  int y = 3;
};
struct Large : D {
  long rest[9] = {};
};
FUNCTION int B::add(int n) { WORK(this); return a + b + n; }
FUNCTION int take(D* d, B* b, F* f) { WORK(d); WORK(b); WORK(f); return d->a + b->a + f->a; }
FUNCTION int hidden(X& x) { WORK(&x); return x.x; }
FUNCTION int name(G* g, const G& h) { WORK(g); WORK(&h); return g->low; }
int main() {
  B b;
  D d;
  F f;
  Large large;
  large.a = 101;
  f.a = 111;
  f.e = -5;
  G g, other;
  other.name = "short";
  other.low = 2;
  g.next = &other;
  other.view = "";
  X x;
  if (hidden(x) != 2) return 1;
  return b.add(1) + large.add(2) + take(&d, &b, &f) + take(&large, &large, &f) + name(&g, other) + name(&other, g) == 0;
}
"""
ARRAYS = """module farm
  type :: item
    integer :: id
    real(8) :: weight
  end type
  type :: box
    integer :: number
    integer, allocatable :: counts(:)
  end type
contains
  subroutine weigh(a, r, p, names, items, holder, m, g)
    integer, intent(in) :: a(:)
    real(8), allocatable, intent(in) :: r(:)
    integer, pointer, intent(in) :: p(:)
    character(len=4), intent(in) :: names(0:)
    type(item), intent(in) :: items(:)
    type(box), intent(in) :: holder
    integer, intent(in) :: m(:,:), g(2,3)
    print *, size(a), names(0), m(1,1), g(1,1), holder%number
    if (allocated(r)) print *, r(lbound(r, 1))
    if (associated(p)) print *, p(lbound(p, 1))
    if (size(items) > 0) print *, items(1)%id
  end subroutine
end module
program main
  use farm
  integer, target :: numbers(12)
  integer, pointer :: p(:)
  real(8), allocatable :: r(:)
  type(item) :: items(3)
  type(box) :: holder
  integer :: m(2, 3), i
  numbers = [(10 * i, i = 1, 12)]
  m = reshape([1, 2, 3, 4, 5, 6], [2, 3])
  items = [item(1, 0.5d0), item(2, -1.5d0), item(3, 2.25d0)]
  holder%number = 9
  p => null()
  call weigh(numbers(3:5), r, p, ["ab  ", "cdef"], items, holder, m, m)
  allocate(r(-1:1))
  r = [1.5d0, 2.5d0, 3.5d0]
  allocate(holder%counts(2))
  holder%counts = [7, 8]
  p => numbers(2:3)
  call weigh(numbers, r, p, ["gh  "], items(2:1), holder, m, m)
  p => numbers(1:9:4)
  call weigh(numbers(12:1:-3), r, p, ["i   "], items(1:3:2), holder, m(2:2, :), m)
end program
"""

# In objects of the two classes the base is at the same offset, whose offset is at another index of their tables.
TWINS = """
struct V { int id = 7; int pad = 0; };
struct W { int w = 9; int pad = 0; };
struct A : virtual V { long a = 1; __attribute__((noinline)) virtual int f(int x) { asm volatile(""); return x + id; } };
struct B : virtual W, virtual V { long a = 1; __attribute__((noinline)) virtual int f(int x) { asm volatile(""); return x + id; } };
int main(int count, char**) {
  A a;
  B b;
  int sum = 0;
  for (int i = 0; i < 3; ++i) sum += a.f(count);
  for (int i = 0; i < 5; ++i) sum += b.f(count);
  return sum == 0;
}
"""


def run(*command):
    done = subprocess.run([str(each) for each in command], capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.stderr}")
    return done.stdout


def events(program, function, *options):
    lines = run(UPROBECTL, "attach", "-q", "-j", "-d", "60", "--forward-exit", *options, program, function, "--",
                program).splitlines()
    found = [json.loads(line) for line in lines if line.startswith("{")]
    return [{each["name"]: each["error"] if each["value"] is None else each["value"] for each in record["arguments"]}
            for record in found if record["type"] == "event"]


def refusal(program, function, *options):
    done = subprocess.run([UPROBECTL, "attach", "-d", "60", *options, program, function, "--", program],
                          capture_output=True, text=True, timeout=120, check=False)
    return done.stderr if done.returncode != 0 else "accepted"


def in_gdb(program, function, *expressions):
    """gdb's text of each expression, of each call: its breakpoint is after the prologue."""
    script = ["set confirm off", "set print elements 8", f"break {function}", "commands", "silent"]
    for number, expression in enumerate(expressions):
        script += [f"printf \"<{number}> \"", f"output {expression}", "printf \"\\n\""]
    script += ["continue", "end", "run"]
    Path("script").write_text("\n".join(script) + "\n", encoding="ascii")
    text = run("gdb", "-batch", "-nx", "-x", "script", program)
    calls = []
    for number, value in re.findall(r"^<(\d+)> (.*)$", text, re.M):
        if number == "0":
            calls.append([])
        calls[-1].append(value)
    return calls


def flat(value):
    """The leaves of a structure by their names, in their order, without pointers to vtables."""
    found = {}
    for name, member in value.items():
        if isinstance(member, dict):
            found.update(flat(member))
        elif not name.startswith("_vptr"):
            found[name] = member
    return found


def leaves(text):
    """The same of what gdb prints."""
    return {name: int(number) for name, number in re.findall(r"\b(?!_vptr)(\w+) = (-?\d+)\b(?!x)", text)}


def bases(compiler, level):
    title = f"{Path(compiler).name} {level}"
    run(compiler, "-g", level, "-std=c++20", "bases.cpp", "-o", "bases")
    right = in_gdb("./bases", "take", "*d", "*b", "*f")
    seen = events("./bases", "take", "--args", "*d,*b,*f", "--args-depth", "3")
    expected = [[leaves(each) for each in call] for call in right]
    shown = [[flat(call[name]) for name in ("*d", "*b", "*f")] for call in seen]
    problems = [] if shown == expected and [list(each) for call in shown for each in call] == \
        [list(each) for call in expected for each in call] else [f"{shown}, gdb: {expected}"]
    TAP.check(f"members of virtual base classes are those of gdb, in its order: {title}", problems)
    (first, second), names = expected, ("d->a", "b->a", "b->b", "f->a", "f->e", "f->d")
    picked = [[each[name] for name in names] for each in events("./bases", "take", "--args", ",".join(names))]
    wanted = [[call[0]["a"], call[1]["a"], call[1]["b"], call[2]["a"], call[2]["e"], call[2]["d"]]
              for call in (first, second)]
    TAP.check(f"they are found by their names: {title}", [] if picked == wanted else [f"{picked}, gdb: {wanted}"])
    own = [[each["a"], each["b"]] for each in events("./bases", "B::add", "--args", "a,b")]
    TAP.check(f"functions of the class name them without an object: {title}",
              [] if own == [[1, 2], [101, 2]] else [own])
    chosen = {text: len(events("./bases", function, "--if", text)) for function, text in
              (("take", "d->a == 101"), ("take", "b->a == 1 && f->e < 0"), ("take", "d->a != 1 && d->a != 101"),
               ("B::add", "a > 100"), ("name", 'g->name == "short"'), ("name", 'g->view ^= "vi" || h.text == "none"'),
               ("name", "g->low == 2"), ("name", "h.high == 17"),
               ("name", 'g->next->name == "short" && g->next->low == 2'))}
    wanted = dict(zip(chosen, (1, 1, 0, 1, 1, 1, 1, 2, 1)))
    TAP.check(f"they are compared in the kernel: {title}", [] if chosen == wanted else [chosen])
    texts = events("./bases", "name", "--args", "g->name,h.view,h.text,g->high,g->next->name")[0]
    wanted = {"g->name": "a name that is longer than 15 characters", "h.view": "", "h.text": "text", "g->high": 17,
              "g->next->name": "short"}
    TAP.check(f"texts and bit-fields are shown: {title}", [] if texts == wanted else [texts])
    hidden = events("./bases", "hidden", "--args", "x.x,x.y")
    TAP.check(f"a member of a derived class hides that of its base: {title}",
              [] if hidden == [{"x.x": 2, "x.y": 3}] else [hidden])
    run(compiler, "-g", level, "-std=c++20", "twins.cpp", "-o", "twins")
    done = run(UPROBECTL, "attach", "-q", "--count", "-d", "60", "--if", "id == 7", "./twins", "A::f", "B::f", "--", "./twins")
    TAP.check(f"each function has the offset of its own class: {title}",
              [] if sorted(done.split()) == ["3", "5", "A::f(int)", "B::f(int)"] else [done])
    said = refusal("./bases", "take", "--if", "f->a == 1")
    TAP.check(f"a condition on a virtual base of a virtual base is refused with the reason: {title}",
              [] if "'f->a': it is in a virtual base class" in said else [said])


def numbers(text):
    """The elements that gdb prints: (1, 2.5, 'ab  '); or why it prints none."""
    if not text.startswith("("):
        return text.strip("<>")
    return [each[1:-1] if each[0] == "'" else float(each) for each in re.findall(r"'[^']*'|-?\d[\d.]*", text)]


def arrays(level):
    run("gfortran", "-g", level, "-fno-inline", "arrays.f90", "-o", "arrays")
    right = in_gdb("./arrays", "weigh", "a", "r", "p", "names", "holder%counts", "m")
    # One by one: all together have more readings than a hit.
    names = ("a", "r", "p", "names", "items", "holder", "m")
    of_each = [events("./arrays", "weigh", "--args-depth", "3", "--args", name) for name in names]
    seen = [dict(pair for part in call for pair in part.items()) for call in zip(*of_each)]
    problems = []
    for call, (ours, gdbs) in enumerate(zip(seen, right)):
        for name, text in zip(("a", "r", "p", "names"), gdbs):
            wanted = numbers(text)
            if name in ("a", "p") and call == 2:
                wanted = "its elements do not follow each other in memory"
            if ours[name] != wanted:
                problems.append(f"call {call}: {name}: {ours[name]}, gdb: {text}")
        counts = ours["holder"].get("counts")
        if call > 0 and counts != numbers(gdbs[4]):
            problems.append(f"call {call}: holder%counts: {counts}, gdb: {gdbs[4]}")
    if len(seen) != 3 or len(right) != 3:
        problems.append(f"{len(seen)} calls, gdb: {len(right)}")
    TAP.check(f"elements of arrays by descriptor are those of gdb at {level}", problems)
    items = [each["items"] for each in seen]
    wanted = [[{"id": 1, "weight": 0.5}, {"id": 2, "weight": -1.5}, {"id": 3, "weight": 2.25}], [],
              "its elements do not follow each other in memory"]
    TAP.check(f"elements may be structures at {level}", [] if items == wanted else [items])
    grids = [str(each["m"]) for each in seen]
    wanted = [call[5].replace(") (", "), (").replace("(", "[").replace(")", "]") for call in right]
    TAP.check(f"columns of two dimensions are rows, as in gdb, at {level}",
              [] if grids == wanted and len(grids) == 3 else [f"{grids}, gdb: {wanted}"])
    fixed = [[each["g"], each["g[2][0]"]] for each in events("./arrays", "weigh", "--args", "g,g[2][0]")]
    TAP.check(f"so are those of a known size at {level}",
              [] if fixed == [[[[1, 2], [3, 4], [5, 6]], 5]] * 3 else [fixed])
    chosen = [each["a[0]"] for each in events("./arrays", "weigh", "--args", "a[0]", "--if", "a[0] == 120")]
    TAP.check(f"the first element can be compared at {level}", [] if chosen == [120] else [chosen])
    said = refusal("./arrays", "weigh", "--args", "a[1]")
    TAP.check(f"other elements are refused with the reason at {level}",
              [] if "'a[1]': where its elements are is known at run time only" in said else [said])


def main():
    if os.geteuid() != 0:
        print("1..0 # SKIP only root attaches")
        return
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("bases.cpp").write_text(BASES, encoding="ascii")
        Path("twins.cpp").write_text(TWINS, encoding="ascii")
        Path("arrays.f90").write_text(ARRAYS, encoding="ascii")
        if not shutil.which("gdb"):
            TAP.skip("values whose address only the program knows", "no gdb")
        else:
            for compiler in filter(shutil.which, ("g++", "clang++-19")):
                for level in ("-O0", "-O2"):
                    bases(compiler, level)
            for level in ("-O0", "-O1", "-O2") if shutil.which("gfortran") else ():
                arrays(level)
        if not shutil.which("gfortran"):
            TAP.skip("arrays of Fortran", "no gfortran")
        os.chdir("/")
    TAP.done()


main()
