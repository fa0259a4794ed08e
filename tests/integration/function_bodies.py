#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""function_bodies.py UPROBECTL
Compiles programs as real ones are built: with code that the linker removes, functions in several
pieces, clones, jump tables of CFI, separate debug files. Compares which code a name means with nm,
and parameters with the sources. Prints TAP."""

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
SPECIALIZED = """volatile int g;
__attribute__((noinline)) int chirp(int n, const char *w) { g = n + w[0]; return g; }
int main(void) { for (int i = 0; i < 40; ++i) chirp(i, "tweet"); return 0; }
"""
JUMP_TABLE = """static volatile int calls;
__attribute__((noinline)) int grind(int n) { calls++; return n * 3; }
__attribute__((noinline)) int mill(int n) { calls++; return n * 5; }
int (*volatile table[2])(int) = {grind, mill};
int main(void) { int s = 0; for (int i = 0; i < 4; ++i) { s += grind(i); s += table[i & 1](i); } return s == 44; }
"""
VARIANTS = """volatile long sink;
__attribute__((noinline, target_clones("avx2", "sse4.2", "default")))
int sum(const int *p, int n) { int s = 0; for (int i = 0; i < n; ++i) s += p[i]; sink = s; return s; }
int main() { int a[64] = {}; return sum(a, 64); }
"""
TEMPLATES = """#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>
volatile long sink;
namespace zoo {
template <class T, int N> struct Cage { T what[N]; int n; __attribute__((noinline)) int put(const T &t); };
template <class T, int N> int Cage<T, N>::put(const T &t) { what[n] = t; sink = n; return n++; }
struct Lion { int age; std::string name; };
enum class Size { small, big };
template <Size S, bool B, char C, unsigned long U, short N> struct Values { int n; };
template <class... A> __attribute__((noinline)) int feedall(A... a) { sink = sizeof...(a); return sizeof...(a); }
template <template <class, int> class C, class T> __attribute__((noinline)) int tt(const C<T, 2> &c) { sink = c.n; return c.n; }
__attribute__((noinline)) int values(Values<Size::big, true, 'x', 7, -2> *v) { sink = v->n; return v->n; }
__attribute__((noinline)) int flags(std::optional<Lion> o, std::unique_ptr<Lion> u, const std::vector<Lion> &v, std::map<int, Lion> m, std::variant<int, Lion> va) { sink = 1; return v.size() + m.size() + (o ? 1 : 0); }
}
int main() { zoo::Cage<int, 3> c{}; zoo::Cage<zoo::Lion, 2> d{}; c.put(5); d.put({7, "leo"}); int r = zoo::feedall(1, 'c', 2.5, "s") + zoo::tt(d);
 std::vector<zoo::Lion> v{{1, "a"}}; std::map<int, zoo::Lion> m{{4, {4, "dd"}}}; zoo::Values<zoo::Size::big, true, 'x', 7, -2> w{};
 return r + zoo::values(&w) + zoo::flags(zoo::Lion{9, "opt"}, nullptr, v, m, zoo::Lion{3, "var"}); }
"""
# gcc keeps one of the functions: another one becomes a jump to it, or a symbol at its address.
FOLDED = """struct point { int x, y; };
struct pixel { int column, row; };
volatile int g;
extern int other(int);
#define BODY(a, n) for (int i = 0; i < n; i++) { g += a->x * i; if (g & 1) other(g); \\
  for (int j = 0; j < i; ++j) other(j * a->y); } if (other(3)) return other(5) + other(g); return g + a->y;
long first(const struct point *a, int count) { BODY(a, count) }
long second(const struct point *b, int number) { BODY(b, number) }
static long third(const struct point *c, int size) { BODY(c, size) }
void *table[] = {first, second, third};
"""
ALIASED = """struct point { int x, y; };
volatile int g;
#define BODY(a, n) for (int i = 0; i < n; i++) g += a->x * i; return g + a->y;
__attribute__((noinline)) int kept(const struct point *a, int count) { BODY(a, count) }
static __attribute__((noinline)) int alias(const struct point *b, int number) { BODY(b, number) }
int main(int argc, char **argv) { struct point p = {argc, 2}; return kept(&p, 1) + alias(&p, 3); }
"""
# The test is inlined, the rest is checked.part.0, which both copies call.
SPLIT = """#include <stdio.h>
volatile int g;
static int checked(int x) {
  if (x < 3) return 0;
  for (int i = 0; i < x; ++i) { printf("%d", g); g += i * x; if (g & 4) printf("%d %d", g, i); }
  printf("%d\\n", x); g = x; printf("%d\\n", g * 3);
  return g;
}
__attribute__((noinline)) int one(int x) { g = 1; return checked(x) + 1; }
__attribute__((noinline)) int two(int x) { g = 2; return checked(x) + 2; }
int main(int c, char **v) { return one(c) + two(c + 1) + one(c + 5) == 7; }
"""
# The programs of one_name(): functions that have one name, out of line and inlined.
ONE_NAME = {
    "c1_c": """#define KEEP(x) asm volatile("" : "+r"(x))
static int help(int x) { KEEP(x); return x + 1; }
int (*volatile p1)(int) = help;
int glob(int x) { KEEP(x); return x + 100; }
__attribute__((noinline)) int one(int x) { return help(x) + glob(x); }
""", "c2_c": """#define KEEP(x) asm volatile("" : "+r"(x))
static int help(int x) { KEEP(x); return x + 2; }
int (*volatile p2)(int) = help;
static inline int glob(int x) { KEEP(x); return x * 100; }
__attribute__((noinline)) int two(int x) { return help(x) + glob(x); }
int one(int x);
int main(int c, char **v) { return one(c) + two(c); }
"""}
OVERLOADED = """#define KEEP(x) asm volatile("" : "+r"(x))
#define INLINE __attribute__((always_inline)) inline
namespace n {
template <class T> inline T largest(T a, T b) { KEEP(a); return a > b ? a : b; }
template <class T> INLINE T least(T a, T b) { KEEP(a); return a < b ? a : b; }
template <> __attribute__((noinline)) long least(long a, long b) { KEEP(a); return a < b ? a : b; }
template <class T> INLINE T only(T a) { KEEP(a); return a; }
static int ov(int a) { KEEP(a); return a; }
static INLINE int ov(long a) { KEEP(a); return a + 1; }
static int sole(int a) { KEEP(a); return a + 7; }
int (*volatile fp)(int) = ov;
int (*volatile fs)(int) = sole;
int (*volatile fm)(int, int) = largest<int>;
}
extern "C" __attribute__((noinline)) int f1(int x) {
  return n::largest(x, 3) + n::ov(x) + n::least(x, 3) + n::only(x) + n::sole(x);
}
extern "C" __attribute__((noinline)) long f2(long x) {
  return n::largest(x, 3L) + n::ov((int)x) + n::ov(x) + n::least(x, 3L) + n::only(x);
}
int main(int c, char **) { return f1(c) + f2(c) + n::fp(c) + n::fm(c, 2); }
"""
UNDESCRIBED = """.text
.globl bare
.type bare,@function
bare: ret
.size bare,.-bare
.section .note.GNU-stack,"",@progbits
"""
SHOP = """namespace shop {
template <class T> __attribute__((noinline)) T largest(T a, T b) { asm volatile(""); return a < b ? b : a; }
__attribute__((noinline)) int plain(int a) { asm volatile(""); return a; }
struct Cart { template <class T> __attribute__((noinline)) T price(T v) { asm volatile(""); return v; } int n = 0; };
}
int main() { shop::Cart c; return shop::largest(1, 2) + shop::plain(3) + c.price(4L) - 9; }
"""
GO = """package main
import "fmt"
type T struct{ n int }
//go:noinline
func cold(x int) int { return x * 2 }
//go:noinline
func (t *T) resume(x int) int { t.n += x; return t.n }
func main() { t := &T{1}; f := func() { fmt.Println(cold(3)) }; f(); fmt.Println(t.resume(4)) }
"""


def function_symbols(*names, file=None):
    """Assembly of functions with these names. They all do the same."""
    functions = "".join(f".p2align 4\n.type {name},@function\n{name}: mov %edi,%eax\nnop\nret\n"
                        f".size {name},.-{name}\n" for name in names)
    return (f'.file "{file}"\n' if file else "") + ".text\n" + functions + \
        '.section .note.GNU-stack,"",@progbits\n'


IN_A = function_symbols("f", "f.constprop.0", "h.constprop.0", "g", file="a.c")
IN_B = function_symbols("f", "g", "k.constprop.0", "h", file="b.c")
SUFFIXES = function_symbols(*"""
_ZN4farm3cowEi.isra.0 _ZN4farm3henEPKc.constprop.0 _ZN4farm3pigEi.lto_priv.0
_ZN4farm4goatEi.specialized.1 _ZN4farm4mareEi.argelim _ZN4farm4duckEi.avx2 _ZN4farm4duckEi.default.1
_ZN4farm5gooseEi.localalias _ZN4farm3ramEi.cfi _ZN4farm3eweEi.__uniq.12.llvm.34
_ZN4farm4calfEi.memprof.1 _ZN4farm2oxEi.hot _ZN4farm2yaEi.isra.0 _ZN4farm2yaEi.isra.0.cold
_ZN4farm12_GLOBAL__N_16hiddenEiPKc.llvm.77 _ZN4farm4lambEi _ZN4farm4lambEi.warm
_ZN4farm5stallEi.isra.0 _ZZN4farm5stallEiENKUliE_clEi _ZN4farm5scaleIiEEiT_.constprop.0
_ZSt9addressofIN4farm4ItemEEPT_RS2_ _ZN4farm4coroEi _ZN4farm4coroEi.resume
plain.__uniq.5 both both.sse4.2.1 both.part.0 twice.llvm.1 twice.llvm.2
""".split())

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
    """The parameters with their locations, by the raw name of the function."""
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
    title = "an inlined call in removed code is not found"
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
    for path in (".", "lib.debug", "copy.so"):
        problems += differ(path, resolve("--debug-dir", path, "lib.so", "hidden"), {address})
    TAP.check("--debug-dir takes the file of .gnu_debuglink, and an unstripped copy", problems)
    run("objcopy", "--only-keep-debug", "other.so", "lib.debug")
    problems = []
    for path in (".", "lib.debug", "other.so"):
        done = run(UPROBECTL, "resolve", "--debug-dir", path, "lib.so", "hidden", check=False)
        if done.returncode != 1 or "its CRC is" not in done.stderr:
            problems.append(f"{path}: {done.stdout} {done.stderr}")
    TAP.check("--debug-dir refuses a file whose CRC .gnu_debuglink disproves", problems)

    hidden = "__attribute__((noinline, visibility(\"hidden\")))"
    build("over.so", "g++", "-O1", "-fPIC", "-shared", "-Wl,--build-id", a_cpp=f"""namespace n {{
int f(int x) {{ return x; }}
{hidden} int f(long x) {{ return x + 1; }}
struct A {{ A(int); {hidden} A(long); int v; }};
A::A(int x) {{ v = x; }}
A::A(long x) {{ v = x + 1; }} }}
int use(long x) {{ return n::f(x) + n::A(x).v; }}
""")
    at = nm("over.so")
    run("objcopy", "--only-keep-debug", "over.so", "over.debug")
    run("strip", "over.so")
    search = ["--debug-dir", "over.debug"]
    problems = []
    for name, expected in (("n::f", {at["_ZN1n1fEi"], at["_ZN1n1fEl"]}),
                           ("n::A::A", {at["_ZN1n1AC1Ei"], at["_ZN1n1AC1El"]})):
        problems += differ(name, resolve(*search, "--all", "over.so", name), expected)
        found = resolve(*search, "over.so", name)
        problems += [] if "is ambiguous, it has 2 addresses" in str(found) else [f"{name}: {found}"]
    problems += differ("n::f(int)", resolve(*search, "over.so", "n::f(int)"), {at["_ZN1n1fEi"]})
    TAP.check("an exported overload does not hide one that only the debug file has", problems)

    build("part", "gcc", "-O1", "-g", "-Wl,--build-id", a_c=source + "int main(int c, char **v) { return visible(c); }\n")
    address = nm("part")["hidden"]
    run("objcopy", "--only-keep-debug", "part", "part.debug")
    run("strip", "-K", "main", "part")
    search = ["--debug-dir", "part.debug"]
    found = run(UPROBECTL, "resolve", "-q", *search, "part", f"vaddr:{address:#x}").stdout
    listed = run(UPROBECTL, "list-symbols", "-q", *search, "part").stdout
    problems = [each for each in (found, listed) if "hidden" not in each]
    TAP.check("a .symtab that strip left a few functions in does not hide those of the debug file", problems)


def suffixes():
    build("s.so", "gcc", "-shared", "-nostdlib", s_s=SUFFIXES)
    at = nm("s.so")
    expected = {
        "farm::cow": ["_ZN4farm3cowEi.isra.0"], "farm::hen(char const*)": ["_ZN4farm3henEPKc.constprop.0"],
        "farm::hen(const char*)": ["_ZN4farm3henEPKc.constprop.0"], "farm::pig": ["_ZN4farm3pigEi.lto_priv.0"],
        "farm::goat": ["_ZN4farm4goatEi.specialized.1"], "farm::mare": ["_ZN4farm4mareEi.argelim"],
        "farm::duck": ["_ZN4farm4duckEi.avx2", "_ZN4farm4duckEi.default.1"],
        "farm::goose": ["_ZN4farm5gooseEi.localalias"], "farm::ram(int)": ["_ZN4farm3ramEi.cfi"],
        "farm::ewe": ["_ZN4farm3eweEi.__uniq.12.llvm.34"], "farm::calf": ["_ZN4farm4calfEi.memprof.1"],
        "farm::ox": ["_ZN4farm2oxEi.hot"], "farm::ya": ["_ZN4farm2yaEi.isra.0"],
        "farm::hidden": ["_ZN4farm12_GLOBAL__N_16hiddenEiPKc.llvm.77"],
        "farm::(anonymous namespace)::hidden": ["_ZN4farm12_GLOBAL__N_16hiddenEiPKc.llvm.77"],
        "hidden": None, "farm::lamb": ["_ZN4farm4lambEi"], "farm::stall": ["_ZN4farm5stallEi.isra.0"],
        "farm::scale<int>": ["_ZN4farm5scaleIiEEiT_.constprop.0"],
        "farm::scale": ["_ZN4farm5scaleIiEEiT_.constprop.0"], "farm::coro": ["_ZN4farm4coroEi"],
        "plain": ["plain.__uniq.5"], "both": ["both", "both.sse4.2.1"],
        "farm::scal*": ["_ZN4farm5scaleIiEEiT_.constprop.0"],
        "farm::cow(int) (.isra.0)": ["_ZN4farm3cowEi.isra.0"],
        "_ZN4farm3cowEi.isra.0": ["_ZN4farm3cowEi.isra.0"],
        "farm::ya(int) (.isra.0.cold)": ["_ZN4farm2yaEi.isra.0.cold"]}
    problems = []
    for name, symbols in expected.items():
        if symbols:
            problems += differ(name, resolve("s.so", name), {at[symbol] for symbol in symbols})
    TAP.check("a name means the bodies of its function, whatever suffixes compilers add", problems)
    TAP.check("functions of two files that were renamed are ambiguous",
              [] if "ambiguous" in str(resolve("s.so", "twice")) else [resolve("s.so", "twice")])
    problems = differ("both", resolve("--no-clones", "s.so", "both"), {at["both"]})
    problems += differ("plain", resolve("--no-clones", "s.so", "plain"), {at["plain.__uniq.5"]})
    if "only its clones" not in str(resolve("--no-clones", "s.so", "farm::cow")):
        problems.append(resolve("--no-clones", "s.so", "farm::cow"))
    problems += differ("both*", resolve("--no-clones", "s.so", "both*"), {at["both"]})
    TAP.check("--no-clones leaves clones out, but not renamed functions", problems)
    TAP.check("--clones adds the parts that are called",
              differ("both", resolve("--clones", "s.so", "both"),
                     {at["both"], at["both.sse4.2.1"], at["both.part.0"]}))
    listed = {line.split("\t")[5] for line in
              run(UPROBECTL, "list-symbols", "s.so", "farm::*").stdout.splitlines()}
    problems = [f"listed: {each}" for each in listed if "addressof" in each]
    problems += [] if any("scale" in each for each in listed) else [f"no scale: {listed}"]
    TAP.check("a pattern does not match the return type of a template, but its clones", problems)


def compiled_clones():
    title = "a function that clang has specialized means both"
    if has("clang-19"):
        build("chirp", "clang-19", "-g", "-O2", chirp_c=SPECIALIZED)
        at = nm("chirp")
        bodies = {value for name, value in at.items() if re.fullmatch(r"chirp(\.specialized\.\d+)?", name)}
        problems = [] if len(bodies) == 2 else [f"not specialized: {at}"]
        TAP.check(title, problems + differ("chirp", resolve("chirp", "chirp"), bodies))
    else:
        TAP.skip(title, "no clang-19")
    title = "an entry of a jump table of CFI is the function that it leads to"
    if has("clang-19", "ld.lld-19"):
        build("cfi", "clang-19", "-g", "-O1", "-flto", "-fuse-ld=lld-19", "-fvisibility=hidden",
              "-fsanitize=cfi-icall", cfi_c=JUMP_TABLE)
        at = nm("cfi")
        problems = differ("grind", resolve("cfi", "grind"), {at["grind.cfi"]})
        problems += differ("pattern", resolve("cfi", "grin*"), {at["grind.cfi"]})
        problems += differ("--no-clones", resolve("--no-clones", "cfi", "grind"), {at["grind"]})
        problems += differ("parameters", arguments("cfi", "grind"), {"grind.cfi": [("n", "rdi")]})
        TAP.check(title, problems)
    else:
        TAP.skip(title, "no clang-19 and ld.lld-19")
    build("variants", "g++", "-g", "-O2", fmv_cpp=VARIANTS)
    bodies = {value for name, value in nm("variants").items() if name.startswith("_Z3sum")}
    problems = [] if len(bodies) == 4 else [f"not the resolver and three variants: {nm('variants')}"]
    TAP.check("the variants of target_clones are bodies besides the resolver",
              problems + differ("sum", resolve("variants", "sum"), bodies))


def folded():
    build("folded", "gcc", "-g", "-O2", folded_c=FOLDED, bare_s=UNDESCRIBED,
          app_c="int other(int a) { return a; }\nint main(void) { return 0; }\n")
    code = run("objdump", "-d", "--disassemble=second", "folded").stdout
    problems = [] if re.search(r"jmp .*<first>", code) else [f"second is not a jump to first: {code}"]
    for name, parameters in {"first": ["a", "count"], "second": ["b", "number"], "third": ["c", "size"]}.items():
        problems += differ(name, arguments("folded", name), {name: list(zip(parameters, ["rdi", "rsi"]))})
    said = run(UPROBECTL, "list-args", "folded", "second").stdout.splitlines()
    problems += differ("types", [line.split()[1:-1] for line in said[1:]], [["const", "point*"], ["int"], ["long", "int"]])
    build("aliased", "gcc", "-g", "-O2", aliased_c=ALIASED)
    at = nm("aliased")
    problems += differ("alias", at["alias"], at["kept"])
    for name, parameters in {"kept": ["a", "count"], "alias": ["b", "number"]}.items():
        problems += differ(name, arguments("aliased", name), {name: list(zip(parameters, ["rdi", "rsi"]))})
    TAP.check("functions that gcc has replaced by one with the same code have their own parameters", problems)
    problems = []
    for name, reason in {"_start": "no debug information covers its code",
                         "bare": "its debug information is the assembler's, or damaged"}.items():
        said = run(UPROBECTL, "list-args", "folded", name, check=False).stderr
        problems += differ(name, said, f"uprobectl: error: {name}: {reason}\n")
    TAP.check("a function without debug information says so", problems)


def split():
    build("split", "gcc", "-g", "-O2", split_c=SPLIT)
    part = nm("split")["checked.part.0"]
    copies = resolve("--inlined", "split", "checked")
    problems = [] if len(copies) == 2 and part not in copies else [f"{copies}, with the part {part:#x}"]
    problems += differ("--clones", resolve("--inlined", "--clones", "split", "checked"), copies | {part})
    problems += differ("by its name", resolve("split", "checked.part.0"), {part})
    TAP.check("a part of a function is not a call beside the inlined copies that call it", problems)
    said = run(UPROBECTL, "resolve", "split", "checked").stderr
    TAP.check("a warning says that calls do not reach the part that is left of a function", [] if "not every call reaches: checked.part.0" in said else [said])


def attached(*words):
    """The addresses that `attach` would probe, or its message."""
    done = run(UPROBECTL, "attach", "--dry-run", "--json", *words, check=False)
    records = [json.loads(line) for line in done.stdout.splitlines()]
    found = {int(each["address"], 16) for each in records if each["type"] == "match"}
    return found or done.stderr


def exclusions():
    build("shop", "g++", "-g", "-O1", shop_cpp=SHOP)
    at = nm("shop")
    largest, plain, price = (at[each] for each in ("_ZN4shop7largestIiEET_S1_S1_", "_ZN4shop5plainEi",
                                                   "_ZN4shop4Cart5priceIlEET_S2_"))
    every = {largest, plain, price}
    problems = []
    for excluded, kept in {"shop::*": {at["main"]}, "shop::plain": {at["main"], largest, price},
                           "shop::largest": {at["main"], plain, price},
                           "shop::largest<int>(int, int)": {at["main"], plain, price},
                           "shop::largest<*": {at["main"], plain, price},
                           "shop::Cart::*": {at["main"], plain, largest},
                           "int shop::*": {at["main"]} | every}.items():
        problems += differ(excluded, attached("--keep-going", "./shop", "main", "shop::*",
                                            "--exclude", excluded), kept)
    TAP.check("--exclude takes templates by the names that FUNCTION takes", problems)
    at = nm("s.so")
    problems = []
    for name in ("farm::duck", "farm::cow", "farm::cow(int)", "farm::hen(const char*)", "farm::d*",
                 "farm::duck(int)", "farm::pig", "farm::ewe", "farm::hidden", "farm::scale",
                 "farm::scale<int>", "plain", "twice*", "both.sse4.2.1", "farm::cow(int) (.isra.0)",
                 "_ZN4farm4duckEi.avx2"):
        named = attached("--all", "./s.so", name)
        left = attached("./s.so", "*", "--exclude", name)
        expected = attached("./s.so", "*")
        if isinstance(named, str) or isinstance(left, str):
            problems.append(f"{name}: {named} {left}")
            continue
        problems += differ(name, left, expected - named)
    TAP.check("--exclude leaves out the bodies that the same FUNCTION means", problems)


def functions_of_files():
    build("two.so", "gcc", "-shared", "-nostdlib", **{"a_s": IN_A, "b_s": IN_B})
    build("one.so", "gcc", "-shared", "-nostdlib", a_s=IN_A)
    symbols = [line.split() for line in run("nm", "two.so").stdout.splitlines()]
    of = lambda name: {int(words[0], 16) for words in symbols if words[2] == name}  # noqa: E731
    problems = []
    for name in ("f", "g", "h"):
        if "ambiguous" not in str(resolve("two.so", name)):
            problems.append(f"{name}: {resolve('two.so', name)}")
    problems += differ("--all f", resolve("--all", "two.so", "f"), of("f") | of("f.constprop.0"))
    problems += differ("--all g", resolve("--all", "two.so", "g"), of("g"))
    problems += differ("--all h", resolve("--all", "two.so", "h"), of("h") | of("h.constprop.0"))
    problems += differ("k", resolve("two.so", "k"), of("k.constprop.0"))
    TAP.check("static functions of two files are ambiguous, also if one has only clones", problems)
    said = run(UPROBECTL, "resolve", "two.so", "g", check=False).stderr
    candidates = re.findall(r"use (\S+) \(\d+ bytes, local, vaddr:", said)
    problems = differ("candidates", set(candidates), {"g@a.c", "g@b.c"})
    found = [resolve("two.so", candidate) for candidate in candidates]
    problems += differ("g", set().union(*found), of("g"))
    problems += [f"{each}: {at}" for each, at in zip(candidates, found, strict=True) if len(at) != 1]
    for name in ("f", "h"):
        a, b = (resolve("two.so", f"{name}@{file}") for file in ("a.c", "b.c"))
        problems += differ(name, a | b, of(name) | of(f"{name}.constprop.0"))
        problems += [f"{name}: {a} {b}"] if a & b or not a or not b else []
    TAP.check("static functions of one name are distinguished by their source files", problems)
    build("both.so", "gcc", "-O1", "-shared", "-fPIC", a_c="int foo(int x) { return x + 1; }\n", b_c="""
static __attribute__((noinline)) int foo(int x) { __asm__(""); return x + 2; }
int bar(int x) { return foo(x); }
""")
    symbols = [line.split() for line in run("nm", "--defined-only", "both.so").stdout.splitlines()]
    exported = {int(words[0], 16) for words in symbols if words[1:] == ["T", "foo"]}
    build("both", "gcc", "-O1", a_c=Path("a.c").read_text(), b_c=Path("b.c").read_text(),
          main_c="int foo(int), bar(int);\nint main(int c, char **v) { return foo(c) + bar(c); }\n")
    said = run(UPROBECTL, "resolve", "both", "foo").stderr
    problems = differ("--all foo", resolve("--all", "both.so", "foo"), of("foo"))
    problems += differ("foo", resolve("both.so", "foo"), exported)
    problems += [] if "--all includes: foo@b.c" in said else [said]
    TAP.check("--all includes static functions with the name of an exported one", problems)
    alone = nm("one.so")
    problems = differ("f", resolve("one.so", "f"), {alone["f"], alone["f.constprop.0"]})
    problems += differ("h", resolve("one.so", "h"), {alone["h.constprop.0"]})
    TAP.check("one function in several bodies is not ambiguous", problems)


def inlined(*words):
    """How often each name is a symbol, and how often code that is inlined into it; or the error."""
    done = run(UPROBECTL, "resolve", "--json", "-q", "--inlined", *words, check=False)
    records = [json.loads(line) for line in done.stdout.splitlines()]
    found = sorted(f"in {each['inlined_into']['symbol']}" if each.get("inlined_into") else each["symbol"]
                   for each in records if each["type"] == "match")
    return found or next(each["message"] for each in records if each["type"] == "error")


def one_name():
    title = "inlined copies of another function of the name are not taken for the function's"
    if not has("gcc", "g++"):
        return TAP.skip(title, "no gcc")
    build("files", "gcc", "-g", "-O2", **ONE_NAME)
    problems = []
    for words, expected in ((["help@c1.c"], ["help", "in one"]), (["help@c2.c"], ["help", "in two"]),
                            (["glob"], ["glob", "in one"]), (["glob@c2.c"], ["in two"]), (["glob@c1.c"], ["glob", "in one"]),
                            (["--all", "glob"], ["glob", "in one", "in two"]), (["--all", "help"], ["help", "help", "in one", "in two"])):
        problems += differ(" ".join(words), inlined(*words[:-1], "files", words[-1]), expected)
    problems += [] if "c2.c:4" in (said := run(UPROBECTL, "resolve", "--inlined", "files", "glob").stderr) else [said]
    TAP.check(title, problems)
    for compiler in ("g++", "clang++-19"):
        title = f"inlined copies are found by any name of the function ({compiler})"
        if not has(compiler) and not TAP.skip(title, f"no {compiler}"):
            continue
        build("overloaded", compiler, "-g", "-O2", overloaded_cpp=OVERLOADED)
        body = "_ZN1nL2ovEi"
        largest, least = "_ZN1n7largestIiEET_S1_S1_", "_ZN1n5leastIlEET_S1_S1_"
        problems = []
        for words, expected in ((["n::ov(int)"], [body, "in f1", "in f2"]), ([body], [body, "in f1", "in f2"]),
                                (["n::ov"], [body, "in f1", "in f2"]), (["ov(int)"], [body, "in f1", "in f2"]),
                                (["sole"], ["_ZN1nL4soleEi", "in f1"]),
                                (["--all", "n::ov"], [body, "in f1", "in f2", "in f2"]),
                                (["n::largest"], [largest, "in f1"]), (["--all", "n::largest"], [largest, "in f1", "in f2"]),
                                (["--all", "n::least"], [least, "in f1"]), (["--all", "n::only"], ["in f1", "in f2"])):
            problems += differ(" ".join(words), inlined(*words[:-1], "overloaded", words[-1]), expected)
        problems += [] if "is ambiguous" in str(inlined("overloaded", "n::only")) else [inlined("overloaded", "n::only")]
        TAP.check(title, problems)


def other_languages():
    build("zig.so", "gcc", "-shared", "-nostdlib", z_s=function_symbols(
        "main", "main.run", "main.resume", "main.cold", "std.debug.print", "f", "f.constprop.0"))
    at = nm("zig.so")
    problems = []
    for name in ("main", "main.run", "main.resume", "main.cold"):
        problems += differ(name, resolve("zig.so", name), {at[name]})
    problems += differ("main.*", resolve("zig.so", "main.*"),
                       {at["main.run"], at["main.resume"], at["main.cold"]})
    problems += differ("f", resolve("zig.so", "f"), {at["f"], at["f.constprop.0"]})
    TAP.check("functions of Zig, whose names have dots, are not taken for clones", problems)

    # Old crti.o files gave _init no size.
    build("init.so", "gcc", "-shared", "-nostdlib", i_s='''.section .init,"ax",@progbits
.globl _init, last
_init: nop; ret
.text; .p2align 4
helper: nop; ret
last: nop; ret
.section .note.GNU-stack,"",@progbits
''')
    at = nm("init.so")
    run("strip", "init.so")
    names = [json.loads(run(UPROBECTL, "resolve", "--json", "-q", "init.so", f"vaddr:{address:#x}").stdout.splitlines()[0])
             for address in (at["_init"] + 1, at["helper"], at["last"] + 1)]
    TAP.check("a symbol without a size ends with its section",
              differ("names", [(each["symbol"], each["symbol_offset"]) for each in names],
                     [("_init", "0x1"), (None, None), ("last", "0x1")]))

    # As NASM and Yasm name labels that begin with a dot: without a type and size.
    build("labels.so", "gcc", "-shared", "-nostdlib", l_s=""".text
.globl f, g
f: mov $3, %ecx
f.loop: dec %ecx
jnz f.loop
ret
g: jmp g.cold
g.cold: ret
.section .note.GNU-stack,"",@progbits
""")
    at = nm("labels.so")
    problems = differ("f", resolve("labels.so", "f"), {at["f"]})
    problems += differ("g", resolve("labels.so", "g"), {at["g"]})
    problems += differ("f.loop", resolve("labels.so", "f.loop"), {at["f.loop"]})
    TAP.check("labels of assemblers are not taken for clones", problems)

    # The first three only pass a call on; the others do something at each of them.
    forwards = {"adjusts": "sub $8, %rdi\nmov (%rdi), %rax\nadd -24(%rax), %rdi\n",
                "on_stack": "addl $-4, 8(%rsp)\n", "chooses": "test %edi, %edi\nje chooses.isra.0\n"}
    works = {"writes": "incl total(%rip)\n", "calls": "call there\n", "repeats": "1: dec %edi\njnz 1b\n",
             "asks": "syscall\n", "locks": "lock xadd %eax, total(%rip)\n"}
    build("forwards.so", "gcc", "-shared", "-nostdlib",
          f_s=".bss\n.local total\ntotal: .long 0\n.text\nthere: ret\n" + "".join(
              f".globl {name}\n.type {name},@function\n{name}: {code}jmp {name}.constprop.0\n.size {name},.-{name}\n"
              for name, code in {**forwards, **works}.items()) + function_symbols(
                  *(f"{name}.constprop.0" for name in {**forwards, **works}), "chooses.isra.0"))
    at = nm("forwards.so")
    problems = differ("chooses", resolve("forwards.so", "chooses"), {at["chooses.constprop.0"], at["chooses.isra.0"]})
    for name in ("adjusts", "on_stack"):
        problems += differ(name, resolve("forwards.so", name), {at[f"{name}.constprop.0"]})
    for name in works:
        problems += differ(name, resolve("forwards.so", name), {at[name], at[f"{name}.constprop.0"]})
    TAP.check("a body that does work of its own before it jumps to another one is probed, too", problems)

    title = "methods of Go with the names of suffixes are not taken for clones"
    if not has("go"):
        TAP.skip(title, "no go")
        return
    Path("m.go").write_text(GO, encoding="ascii")
    done = subprocess.run(["go", "build", "-o", "gobin", "m.go"], capture_output=True, text=True,
                          timeout=300, check=False, env={**os.environ, "GOCACHE": os.getcwd() + "/go",
                                                         "GOFLAGS": "-mod=mod"})
    if done.returncode != 0:
        TAP.skip(title, f"go build: {done.stderr}")
        return
    at = nm("gobin")
    names = [each for each in at if each.startswith("main.") and ".." not in each]
    problems = [] if {"main.cold", "main.(*T).resume"} <= set(names) else [names]
    for name in names:
        problems += differ(name, resolve("gobin", name), {at[name]})
    problems += differ("T.resume", resolve("gobin", "T.resume"), {at["main.(*T).resume"]})
    code = {at[each] for each in names if "(" not in each or "resume" in each}
    found = resolve("gobin", "main.*")
    problems += [] if code <= found else [f"main.*: {found} lacks {code - found}"]
    said = run(UPROBECTL, "resolve", "gobin", "main.cold").stderr
    problems += [said] if "cold part" in said else []
    TAP.check(title, problems)


def old_baselines():
    build("base.so", "gcc", "-shared", "-nostdlib",
          s_s=function_symbols("f", "f.constprop.0", "g.isra.0", "h", "h.sse4.2.1", "lone", "j.cfi") +
          ".text\n.type j,@function\nj: jmp j.cfi\n.size j,.-j\n")
    problems = []
    jump = run(UPROBECTL, "resolve", "--json", "-q", "--no-clones", "base.so", "j", "j.cfi").stdout
    old = [{**json.loads(line), "request": "j*"} for line in jump.splitlines()]
    Path("base.jsonl").write_text("".join(json.dumps({key: value for key, value in each.items()
                                                      if key != "clones"}) + "\n" for each in old),
                                  encoding="ascii")
    for words in ([], ["--update"], []):
        done = run(UPROBECTL, "resolve", "--verify", "base.jsonl", *words, check=False)
        if done.returncode != 0 or "2 of 2 match" not in done.stdout + done.stderr:
            problems.append(f"entry of a jump table {words}: {done.stdout} {done.stderr}")
    for words in (["--no-clones", "f"], ["--clones", "f"], ["--clones", "g"], ["h"], ["f*"], ["lone"]):
        records = run(UPROBECTL, "resolve", "--json", "-q", "base.so", *words).stdout
        # Versions before the field wrote the function alone, or with --clones and patterns all.
        old = [{key: value for key, value in json.loads(line).items() if key != "clones"}
               for line in records.splitlines()]
        if words == ["h"]:
            old = [each for each in old if each["symbol"] == "h"]
        for name, lines in {"old": old, "new": [json.loads(line) for line in records.splitlines()]}.items():
            Path("base.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines),
                                          encoding="ascii")
            done = run(UPROBECTL, "resolve", "--verify", "base.jsonl", check=False)
            if done.returncode != 0 or f"{len(lines)} of {len(lines)} match" not in done.stdout + done.stderr:
                problems.append(f"{words} {name}: {done.returncode} {done.stdout} {done.stderr}")
    TAP.check("a baseline means the bodies that it was made with", problems)


def simple_template_names():
    title = "names that lack the arguments of templates are those that have them"
    if not has("clang++-19"):
        TAP.skip(title, "no clang++-19")
        return
    names = ["zoo::Cage<int, 3>::put", "zoo::Cage<zoo::Lion, 2>::put", "zoo::feedall", "zoo::tt",
             "zoo::values", "zoo::flags"]
    found = {}
    for program, options in {"whole": [], "simple": ["-gsimple-template-names"]}.items():
        build(program, "clang++-19", "-std=c++17", "-g", "-O1", *options, tm_cpp=TEMPLATES)
        done = run(UPROBECTL, "list-args", "--json", "-q", program, *names)
        found[program] = [(each["function"], [one["type"] for one in each["parameters"]])
                          for each in map(json.loads, done.stdout.splitlines())]
    problems = [f"{one}, expected {other}"
                for one, other in zip(found["simple"], found["whole"]) if one != other]
    if len(found["whole"]) != len(names) or "Cage<int, 3>" not in found["whole"][0][0]:
        problems.append(found["whole"])
    TAP.check(title, problems)


SANITIZED = """
struct Pair { double a; int b; };
__attribute__((noinline)) double add(double x, int *p) { double *q = &x; *q += 1; *p = 3; return *q; }
__attribute__((noinline)) int pair(struct Pair a, long b) { struct Pair *p = &a; return p->b + (int)b; }
int main(void) { int p; return (int)add(1, &p) + pair((struct Pair){1, 2}, 3); }
"""


def sanitized_frames():
    """An address sanitizer moves parameters to a frame of its own after the first instructions."""
    title = "parameters that a sanitizer moves are where the caller has passed them"
    compilers = [each for each in ("gcc", "clang-19") if has(each)]
    if not compilers or os.uname().machine != "x86_64":
        TAP.skip(title, "no compiler for x86-64")
        return
    problems = []
    for compiler in compilers:
        # Code is generated without the library: it is never run.
        build("sanitized.so", compiler, "-g", "-O0", "-fsanitize=address", "-fPIC", "-shared", "-nostdlib",
              sanitized_c=SANITIZED)
        problems += differ(compiler, arguments("sanitized.so", "add"), {"add": [("x", None), ("p", "rdi")]})
        found = arguments("sanitized.so", "pair")["pair"]
        if "rdi" not in (found[0][1] or "") or found[1] != ("b", "rsi"):
            problems.append(f"{compiler}: {found}")
    TAP.check(title, problems)


def prologues():
    """gdb stops after the prologue, and list-args says where that is, unless the code is optimized."""
    title = "the address after a prologue is that of gdb's breakpoint"
    if not has("gcc", "gdb"):
        TAP.skip(title, "no gcc or gdb")
        return
    text = "__attribute__((noipa)) int add(double x, int n) { return n + (int)x; }\n" \
           "int main(void) { return add(1, 2); }\n"
    problems = []
    for options in (["-O0"], ["-O0", "-fstack-protector-all"], ["-Og"], ["-O2"]):
        build("prologue", "gcc", "-g", *options, prologue_c=text)
        listed = run(UPROBECTL, "list-args", "-q", "prologue", "add").stdout
        said = re.search(r"after the prologue, at \+(0x[0-9a-f]+)", listed)
        if options[0] != "-O0":
            problems += differ(options, said, None)
            continue
        stop = run("gdb", "-batch", "-ex", "info address add", "-ex", "break add", "prologue").stdout
        begin, after = (int(each, 16) for each in re.findall(r"at (?:address )?(0x[0-9a-f]+)", stop)[:2])
        problems += differ(options, said and int(said[1], 16), after - begin)
    TAP.check(title, problems)


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for group in (removed_code, entries, debug_files, suffixes, exclusions, functions_of_files, one_name,
                      compiled_clones, folded, split, other_languages, old_baselines, simple_template_names,
                      sanitized_frames, prologues):
            group()
        os.chdir("/")
    TAP.done()


main()
