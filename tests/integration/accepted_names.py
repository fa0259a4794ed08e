#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""accepted_names.py UPROBECTL
Names as compilers, debuggers and build tools print them: functions of C++20 modules and of Fortran's
modules, paths that begin with "../", and the hints for names that are nearly right. Where code lies
is asked of nm. Prints TAP."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap

UPROBECTL = str(Path(sys.argv[1]).resolve())
TAP = Tap()

MODULE = """export module geo;
export namespace farm { __attribute__((noinline)) int area(int w, int h) { return w * h + 1; } }
export __attribute__((noinline)) int plain(int w) { return farm::area(w, w) + 3; }
export template <class T> __attribute__((noinline)) T twice(T x) { return x + x; }
export struct Pen { int n; __attribute__((noinline)) int count(int more) const; };
__attribute__((noinline)) int Pen::count(int more) const { return n + more; }
"""
USER = """import geo;
int main() { Pen p{4}; return farm::area(1, 2) + plain(3) + p.count(4) + twice(5) == 0; }
"""
FORTRAN = """module farm
contains
  integer function weigh(n) result(r)
    integer, value :: n
    r = 2 * n
  end function
end module
program main
  use farm
  print *, weigh(21)
end program
"""
STORE = """namespace shop { struct Store { int v; int add(int n); int total(); };
__attribute__((noinline)) int Store::add(int n) { return v += n; }
__attribute__((noinline)) int Store::total() { return v; } }
int main() { shop::Store s{1}; return s.add(2) + s.total(); }
"""


METHODS = """__attribute__((noinline)) int step(int n) { return n + 1; }
int main(void) { return step(-1); }
"""


def run(*command, check=True, **more):
    done = subprocess.run([str(each) for each in command], capture_output=True, text=True, timeout=120, check=False, **more)
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.stderr}")
    return done


def nm(file):
    return {words[2]: int(words[0], 16) for line in run("nm", file).stdout.splitlines() if len(words := line.split()) == 3}


def check_addresses(title, program, names):
    """names: the symbol of each name."""
    addresses, problems = nm(program), []
    for name, symbol in names.items():
        done = run(UPROBECTL, "resolve", "--json", "-q", program, name, check=False)
        found = [int(record["address"], 16) for record in map(json.loads, done.stdout.splitlines()) if record["type"] == "match"]
        if found != [addresses[symbol]]:
            problems.append(f"{name}: {found}, not {addresses[symbol]:#x}")
    TAP.check(title, problems)


def methods():
    Path("shop.c").write_text(METHODS, encoding="ascii")
    run("gcc", "-O1", "shop.c", "-o", "plain")
    run("objcopy", "--redefine-sym", "step=-[Shop add:to:]", "plain", "methods")
    problems = []
    for command in (["resolve", "-q"], ["attach", "--dry-run", "-q"]):
        done = run(UPROBECTL, *command, "./methods", "-[Shop add:to:]", check=False)
        if done.returncode != 0 or not done.stdout.endswith("-[Shop add:to:]\n"):
            problems.append(f"{command[0]}: {done.stdout}{done.stderr}")
    TAP.check("methods of Objective-C are not taken for options", problems)
    done = run(UPROBECTL, "resolve", "-q", "./methods", "?[Shop add:to:]", check=False)
    TAP.check("the hint for an unknown method is another method",
              [] if "did you mean '-[Shop add:to:]'" in done.stderr and "--args" not in done.stderr else [done.stderr])


def modules():
    title = "functions of C++20 modules are found by the names of their sources"
    if not shutil.which("clang++-19"):
        TAP.skip(title, "no clang++-19")
        return
    Path("geo.cppm").write_text(MODULE, encoding="ascii")
    Path("user.cpp").write_text(USER, encoding="ascii")
    clang = ["clang++-19", "-std=c++20", "-O1"]
    run(*clang, "--precompile", "geo.cppm", "-o", "geo.pcm")
    run(*clang, "-c", "geo.pcm", "-o", "geo.o")
    run(*clang, "-fmodule-file=geo=geo.pcm", "user.cpp", "geo.o", "-o", "user")
    check_addresses(title, "user", {"farm::area": "_ZN4farmW3geo4areaEii", "farm::area@geo": "_ZN4farmW3geo4areaEii",
                                    "plain": "_ZW3geo5plaini", "Pen::count": "_ZNKW3geo3Pen5countEi",
                                    "Pen::count(int) const": "_ZNKW3geo3Pen5countEi",
                                    "twice": "_ZW3geo5twiceIiET_S1_", "twice@geo": "_ZW3geo5twiceIiET_S1_"})
    printed = run("c++filt", *(each for each in nm("user") if "W3geo" in each)).stdout.splitlines()
    check_addresses("functions of modules are found by the names that c++filt prints", "user",
                    dict(zip(printed, (each for each in nm("user") if "W3geo" in each))))
    others = {name: run(UPROBECTL, "resolve", "user", name, check=False).returncode for name in ("twice@map", "twice@")}
    TAP.check("a function of a module is not found in another one", [f"{each}" for each, status in others.items() if status != 1])


def fortran():
    title = "procedures of Fortran's modules are found as gdb and events name them"
    if not shutil.which("gfortran"):
        TAP.skip(title, "no gfortran")
        return
    Path("f.f90").write_text(FORTRAN, encoding="ascii")
    run("gfortran", "-O1", "-fno-inline", "f.f90", "-o", "fortran")
    check_addresses(title, "fortran", {"farm::weigh": "__farm_MOD_weigh", "FARM::Weigh": "__farm_MOD_weigh",
                                     "weigh": "__farm_MOD_weigh", "WEIGH": "__farm_MOD_weigh"})


def paths():
    title = "a path that begins with ../, as a compiler in a build folder gets it, is that file"
    for folder in ("src/core", "build"):
        os.makedirs(folder)
    Path("src/core/job.c").write_text("int step(int n) {\n  n += 4;\n  return n * n;\n}\n", encoding="ascii")
    Path("src/main.c").write_text("int step(int); int main(void) { return step(3); }\n", encoding="ascii")
    run("gcc", "-g", "../src/main.c", "../src/core/job.c", "-o", "../job", cwd="build")
    found = {path: run(UPROBECTL, "resolve", "--offset-only", "job", path, check=False).stdout
             for path in ("job.c:2", "../src/core/job.c:2", "./../src/core/job.c:2", "../../other/job.c:2")}
    problems = [f"{path}: {offset!r}" for path, offset in found.items()
                if offset != ("" if "other" in path else found["job.c:2"])]
    TAP.check(title, problems if found["job.c:2"] else ["there is no line 2"])


def hints():
    Path("store.cpp").write_text(STORE, encoding="ascii")
    run("g++", "-O1", "store.cpp", "-o", "store")
    problems = []
    for typed, hint in {("resolve", "store", "Store::ad"): "did you mean 'shop::Store::add'?",
                        ("resolve", "store", "Store.total"): "did you mean 'shop::Store::total'?",
                        ("attach", "usdt:/usr/bin/python3:python:gc__start"):
                            "static probes are probed with: uprobectl usdt attach /usr/bin/python3 python:gc__start",
                        ("attach", "--args", "c-", "store", "main"): "quote it: the shell takes > for a redirection: 'c->MEMBER'",
                        }.items():
        done = run(UPROBECTL, *typed, check=False)
        if f"hint: {hint}\n" not in done.stderr:
            problems.append(f"{typed}: {done.stderr}")
    if run(UPROBECTL, "help", "TARGET").stdout != run(UPROBECTL, "help", "target").stdout:
        problems.append("help TARGET")
    TAP.check("names that are nearly right have hints", problems)


def stripped_libraries():
    Path("hidden.c").write_text("static __attribute__((noinline)) int hidden(int n) { return n * 3; }\n"
                                "int shown(int n) { return hidden(n); }\n", encoding="ascii")
    run("gcc", "-O1", "-fPIC", "-shared", "-s", "hidden.c", "-o", "libhidden.so")
    with zipfile.ZipFile("two.zip", "w") as archive:
        for abi in ("x86_64", "arm64-v8a"):
            archive.write("libhidden.so", f"lib/{abi}/libhidden.so")
    done = run(UPROBECTL, "resolve", "two.zip!/lib/*/libhidden.so", "hidden", check=False)
    expected = "'hidden' is not in any of its 2 files\n  hint: none of them has a .symtab"
    TAP.check("a pattern over stripped libraries asks for their symbols, as one of them does",
              [] if expected in done.stderr else [done.stderr])


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for group in (methods, modules, fortran, paths, hints, stripped_libraries):
            group()
        os.chdir("/")
    TAP.done()


main()
