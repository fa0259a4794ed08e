#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""function_bodies.py UPROBECTL
Compiles programs as real ones are built: with code that the linker removes, functions in several
pieces, separate debug files. Compares which code a name means with nm, and parameters with the
sources. Prints TAP."""

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

# More code than lies in front of what the linker keeps, so that its addresses overlap when the
# debug information of the removed function says that it begins at 0.
REMOVED = "extern volatile int g;\nint dead_table(int x, int y) { switch (x) {\n" + "".join(
    f"case {7 * i}: g = y * {i + 3} + x; g ^= {i}; break;\n" for i in range(1500)) + """}
return g; }
int live_lib(int q) { g = q; return q + 1; }
"""
KEPT = """volatile int g; int live_lib(int);
struct req { int id; const char *path; };
__attribute__((noinline)) int serve(const struct req *r, int retries) { g = r->id; return retries + live_lib(r->id); }
int main(void) { struct req r = {7, "/index"}; return serve(&r, 2); }
"""
REMOVED_CALL = """extern volatile int g;
static inline __attribute__((always_inline)) int tinyb(int x) { g = x + 5; return g; }
int deadfn(int param, const char *text) { g = param; return text[0] + tinyb(param); }
"""
COLD_FIRST = """#include <cstdio>
volatile long sink;
__attribute__((noinline)) void bump(long *p) { *p += 1; sink = *p; }
namespace mill {
__attribute__((noinline)) long grade(long n, const char *w) {
  long s = 0;
  bump(&n);
  if (n < 0) {
    std::fprintf(stderr, "neg %s\\n", w);
    bump(&s);
    return -1;
  }
  for (long i = 0; i < n; ++i) s += w[0] * i;
  sink = s;
  return s + 7;
} }
int main(int c, char **v) { return mill::grade(c, v[0]) == 3; }
"""

def run(*command, check=True):
    done = subprocess.run([str(each) for each in command], capture_output=True, text=True,
                          timeout=120, check=False)
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.stderr}")
    return done


def build(program, *command, **sources):
    """Runs the compiler on sources, by name without the dot: app_c."""
    files = []
    for name, text in sources.items():
        file = Path(name.replace("_", "."))
        file.write_text(text, encoding="ascii")
        files.append(file)
    run(*command, *files, "-o", program)


def nm(file):
    """Addresses by name."""
    return {words[2]: int(words[0], 16) for line in run("nm", file).stdout.splitlines()
            if len(words := line.split()) == 3}


def resolve(*words):
    """The addresses, or the message of the error."""
    done = run(UPROBECTL, "resolve", "--json", "-q", *words, check=False)
    records = [json.loads(line) for line in done.stdout.splitlines()]
    found = {int(each["address"], 16) for each in records if each["type"] == "match"}
    return found or next(each["message"] for each in records if each["type"] == "error")


def arguments(*words):
    """The parameters with their places, by the raw name of the function."""
    done = run(UPROBECTL, "list-args", "--json", "-q", *words, check=False)
    return {each["symbol"]: [(one["name"], one["location"]) for one in each["parameters"]]
            for each in map(json.loads, done.stdout.splitlines()) if each["type"] == "arguments"}


def differ(what, found, expected):
    return [] if found == expected else [f"{what}: {found}, expected {expected}"]


def has(*programs):
    return all(shutil.which(each) for each in programs)


def removed_code():
    sections = ["-ffunction-sections", "-Wl,--gc-sections"]
    for name, compiler in {"gcc": ["gcc"], "gcc, DWARF 4": ["gcc", "-gdwarf-4"],
                           "clang": ["clang-19"], "clang, LLD": ["clang-19", "-fuse-ld=lld-19"]}.items():
        title = f"functions have their own parameters beside code that the linker removed ({name})"
        if not has(compiler[0]):
            TAP.skip(title, f"no {compiler[0]}")
            continue
        build("kept", *compiler, "-g", "-O1", *sections, gen_c=REMOVED, app_c=KEPT)
        found = arguments("kept", "serve", "main")
        problems = differ("serve", [each[0] for each in found.get("serve", [])], ["r", "retries"])
        problems += differ("main", found.get("main"), [])
        lines = [json.loads(line) for line in
                 run(UPROBECTL, "resolve", "--json", "-q", "kept", "app.c:3", "gen.c:3",
                     check=False).stdout.splitlines()]
        problems += differ("app.c:3", [int(each["address"], 16) for each in lines
                                       if each["type"] == "match"], [nm("kept")["serve"]])
        TAP.check(title, problems)
    title = "an inlined call in removed code is not a place"
    if has("clang++-19"):
        build("header", "clang++-19", "-g", "-O1", *sections, "-Wl,-z,noseparate-code",
              inl_cc=REMOVED_CALL, main_cc="volatile int g; int main() { g = 1; return 0; }\n")
        found = resolve("--inlined", "header", "tinyb")
        TAP.check(title, [] if "no function 'tinyb'" in str(found) else [found])
    else:
        TAP.skip(title, "no clang++-19")


def entries():
    title = "the entry of a function whose cold part comes first is its symbol's address"
    if not has("clang++-19", "ld.lld-19"):
        TAP.skip(title, "no clang++-19 and ld.lld-19")
        return
    Path("clusters").write_text("!_ZN4mill5gradeElPKc\n!!0 2 3\n", encoding="ascii")
    build("pieces", "clang++-19", "-g", "-O2", "-fbasic-block-sections=list=clusters",
          "-fuse-ld=lld-19", esc_cpp=COLD_FIRST)
    symbols = nm("pieces")
    problems = [] if "_ZN4mill5gradeElPKc.cold" in symbols else ["there is no cold part"]
    found = arguments("pieces", "mill::grade").get("_ZN4mill5gradeElPKc")
    problems += differ("parameters", found, [("n", "rdi"), ("w", "rsi")])
    problems += differ("mill::grade:+0", resolve("pieces", "mill::grade:+0"),
                       {symbols["_ZN4mill5gradeElPKc"]})
    TAP.check(title, problems)


def debug_files():
    source = "static __attribute__((noinline)) int hidden(int a) { __asm__(\"\"); return a * 3; }\n" \
             "int visible(int a) { return hidden(a) + 1; }\n"
    options = ["gcc", "-O1", "-g", "-fno-toplevel-reorder", "-fPIC", "-shared"]
    build("id.so", *options, "-Wl,--build-id", a_c=source)
    for folder in ("symbols/a", "symbols/z"):
        os.makedirs(folder)
    run("strip", "--strip-debug", "id.so", "-o", "symbols/a/id.so")
    shutil.copy("id.so", "symbols/z/id.so")
    run("strip", "id.so", "-o", "stripped.so")
    found = arguments("--debug-dir", "symbols", "stripped.so", "hidden").get("hidden")
    TAP.check("of several files with the build id one with debug information is taken",
              differ("parameters", found, [("a", "rdi")]))

    build("lib.so", *options, "-Wl,--build-id=none", a_c=source)
    build("other.so", *options, "-Wl,--build-id=none",
          b_c="int other(int a) { return a * a * 7 + a; }\n" + source)
    address = nm("lib.so")["hidden"]
    shutil.copy("lib.so", "copy.so")
    run("objcopy", "--only-keep-debug", "lib.so", "lib.debug")
    run("strip", "lib.so")
    run("objcopy", "--add-gnu-debuglink=lib.debug", "lib.so")
    problems = []
    for place in (".", "lib.debug", "copy.so"):
        problems += differ(place, resolve("--debug-dir", place, "lib.so", "hidden"), {address})
    TAP.check("--debug-dir takes the file of .gnu_debuglink, and an unstripped copy", problems)
    run("objcopy", "--only-keep-debug", "other.so", "lib.debug")
    problems = []
    for place in (".", "lib.debug", "other.so"):
        done = run(UPROBECTL, "resolve", "--debug-dir", place, "lib.so", "hidden", check=False)
        if done.returncode != 1 or "its CRC is" not in done.stderr:
            problems.append(f"{place}: {done.stdout} {done.stderr}")
    TAP.check("--debug-dir refuses a file whose CRC .gnu_debuglink disproves", problems)


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for group in (removed_code, entries, debug_files):
            group()
        os.chdir("/")
    TAP.done()


main()
