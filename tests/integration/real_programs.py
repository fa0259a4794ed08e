#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares uprobectl with gdb on programs of many files that others wrote, from Debian's packages, built with
the defaults of gcc, clang, rustc and Go, without and with optimization: the parameters of all functions by
name, the locations of functions and source lines, and the values of parameters at the first calls of each
function. The hits of functions in optimized C programs are compared with the calls that the same program counts
itself at -O0 (-finstrument-functions).
Usage: real_programs.py UPROBECTL CACHE FIXTURES [--program NAME]..."""

import argparse
import bisect
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "guest"), str(HERE.parent.parent / "tools")]
import run_native_suite  # noqa: E402
from foreign_apt import Unavailable, configuration, download, download_source, run  # noqa: E402
from tap import Tap  # noqa: E402

# Debian's, whose standard library has sources that gdb knows, rather than another one in PATH.
RUSTC = "/usr/bin/rustc" if os.path.exists("/usr/bin/rustc") else "rustc"
CALLS = 3  # of each function are compared
CALL_COUNTER = """
// Writes "ADDRESS CALLS" of each function that was called, by its address in the file, at the end.
#include <stdio.h>
#include <stdlib.h>
#define HIDDEN __attribute__((no_instrument_function))
extern char __executable_start;
static struct { void *function; unsigned long calls; } counts[1 << 16];
HIDDEN void __cyg_profile_func_enter(void *function, void *caller) {
  unsigned i = (unsigned long)function / 4 % (1 << 16);
  while (counts[i].function && counts[i].function != function) i = (i + 1) % (1 << 16);
  counts[i].function = function;
  counts[i].calls++;
}
HIDDEN void __cyg_profile_func_exit(void *function, void *caller) {}
HIDDEN __attribute__((destructor)) static void write_counts(void) {
  FILE *file = fopen(getenv("CALL_COUNTS"), "w");
  for (unsigned i = 0; file && i < 1 << 16; i++)
    if (counts[i].function) fprintf(file, "%lx %lu\\n", (unsigned long)((char *)counts[i].function - &__executable_start), counts[i].calls);
}
"""
LUA_SCRIPT = """
local Shape = {}
Shape.__index = Shape
function Shape.new(w, h) return setmetatable({w = w, h = h}, Shape) end
function Shape:area() return self.w * self.h end
Shape.__add = function(a, b) return Shape.new(a.w + b.w, a.h + b.h) end
Shape.__tostring = function(s) return ("%dx%d"):format(s.w, s.h) end
local total, names = 0, {}
for i = 1, 200 do
  local s = Shape.new(i, i % 7) + Shape.new(1, 2)
  total = total + s:area()
  names[#names + 1] = tostring(s)
end
table.sort(names, function(a, b) return a > b end)
local text = table.concat(names, ",")
local seen = 0
for w, h in text:gmatch("(%d+)x(%d+)") do seen = seen + tonumber(w) // 1 + tonumber(h, 10) end
local co = coroutine.wrap(function(n) for i = 1, n do coroutine.yield(i * i, i / 2) end end)
for _ = 1, 20 do seen = seen + co(20) end
print(pcall(error, {code = 3}), select("#", table.unpack({1, 2, nil, 4}, 1, 4)), pcall(string.rep, "x", -1))
print(xpcall(function() local t = nil; return t.x end, function(m) return "caught: " .. m end))
local f = assert(load("local a, b = ...; goto done; ::done:: return a << 2 | b ~ 5, a .. b, -a // 3, a % 2.5"))
print(f(6, 3))
print(string.pack("<i4z", 7, "seven"):byte(1, -1), utf8.char(228, 8364), #text, seen, total)
print(math.type(3), math.max(1, 2.5), 7 // 2, 7.5 % 2, 1 < 2.5, "a" < "b", 2 ^ 10, ("x"):rep(3, "-"), next({}))
print(string.format("%q %5.2f %-5s| %x %s", "a\\nb", 3.14159, "ab", 255, nil), ("hello world"):gsub("o", {o = "0"}))
do local closed <close> = setmetatable({}, {__close = function() print("closed") end}) end
collectgarbage("incremental"); collectgarbage()
collectgarbage("generational"); collectgarbage("step"); collectgarbage()
print(os.time({year = 2020, month = 1, day = 1, hour = 12}) > 0, io.type(io.stdout), #arg, debug.getinfo(1, "l").currentline)
"""


@dataclass
class Program:
    """`runs`: arguments and redirections for sh; `prepare` puts files that the runs need into the folder."""
    name: str
    packages: list
    runs: list
    files: list = field(default_factory=list)
    flags: list = field(default_factory=list)
    prepare: object = None
    language: str = None  # unless it is C
    symbols: str = ""  # what the names of its functions have, and the paths of its files
    paths: str = ""
    least: tuple = (0, 0, 0)  # parameters, locations, values that must be compared in each build
    may_change: tuple = ()  # (function, parameter): another run has other values
    by_address: tuple = ()  # functions that are called as often as addresses decide


def copy_first(pattern, name):
    def prepare(folders, folder):
        (found,) = folders[0].glob(pattern)
        shutil.copy(found, folder / name)
    return prepare


def prepare_png(folders, folder):
    shutil.copy(folders[0] / "scripts/pnglibconf.h.prebuilt", folders[0] / "pnglibconf.h")
    shutil.copy(folders[0] / "pngtest.png", folder / "pngtest.png")


def prepare_lua(folders, folder):
    # debian/rules makes it.
    (folders[0] / "src/lua5.4-deb-multiarch.h").write_text('#define DEB_HOST_MULTIARCH "x86_64-linux-gnu"\n')
    (folder / "script.lua").write_text(LUA_SCRIPT)


ZLIB = [f"{name}.c" for name in ("adler32", "compress", "crc32", "deflate", "gzclose", "gzlib", "gzread", "gzwrite", "infback",
                                 "inffast", "inflate", "inftrees", "trees", "uncompr", "zutil")]
PROGRAMS = [
    Program("bzip2", ["bzip2"], ["-c -z < text > packed", "-c -d < packed > unpacked"],
            files=[f"0/{name}.c" for name in ("blocksort", "huffman", "crctable", "randtable", "compress", "decompress",
                                              "bzlib", "bzip2")],
            flags=["-D_FILE_OFFSET_BITS=64"], prepare=copy_first("huffman.c", "text"), least=(100, 500, 60)),
    Program("lua", ["lua5.4"], ["script.lua first second > printed"], files=["0/src/l*.c"],
            # The seed of the hashes of strings is otherwise the time and an address.
            flags=["-DLUA_COMPAT_5_3", "-Dluai_makeseed(L)=1", "-lm"], prepare=prepare_lua, least=(1000, 2000, 900),
            # The seed of random numbers is the time; not all texts that have a length end with a zero.
            by_address=("luaS_hash", "internshrstr", "luaS_newlstr"),  # behind a cache of strings by their address
            may_change=(("setseed", "n1"), ("setseed", "n2"), ("rotl", "x"), ("pushstr", "str"))),
    Program("zlib", ["zlib"], ["-c -9 < text > packed", "-c -d < packed > unpacked"],
            files=[f"0/{name}" for name in (*ZLIB, "test/minigzip.c")], flags=["-DHAVE_UNISTD_H", "-I0"],
            prepare=copy_first("deflate.c", "text"), least=(200, 800, 90)),
    Program("libpng", ["libpng1.6", "zlib"], ["pngtest.png > printed"],
            files=["0/png*.c", *(f"1/{name}" for name in ZLIB)],
            flags=["-DHAVE_UNISTD_H", "-DPNG_INTEL_SSE_OPT=0", "-I0", "-I1", "-lm"], prepare=prepare_png,
            least=(900, 2000, 500)),
]
LEFT_OUT = {"luac.c", "pngnow.c"}  # other programs
# Markdown to HTML, built of its crates; and the formatter of Go's own sources.
RUST_PROGRAM = Program("pulldown-cmark", [f"librust-{name}-dev" for name in (
    "pulldown-cmark", "getopts", "memchr", "bitflags", "unicase", "unicode-width")], ["-T -F -S -L < text.md > text.html"],
                       language="rust", symbols="pulldown_cmark|getopts|unicase", paths="/crates/", least=(300, 1000, 300), may_change=((
                           "pulldown_cmark::html::HtmlWriter<&mut pulldown_cmark::parse::Parser, pulldown_cmark::escape::WriteWrapper<"
                           "std::io::buffered::bufwriter::BufWriter<std::io::stdio::StdoutLock>>>::run<&mut pulldown_cmark::parse::"
                           "Parser, pulldown_cmark::escape::WriteWrapper<std::io::buffered::bufwriter::BufWriter<std::io::stdio::"
                           "StdoutLock>>>", "self"),))  # it has random keys of a hash map
GO_PROGRAM = Program("gofmt", [], ["-s -r 'a+b -> b+a' < text.go > formatted"], language="go",
                     symbols=r"^(main|go/(scanner|parser|printer|ast))\.", paths="/(cmd/gofmt|go/(scanner|parser|printer|ast))/",
                     least=(300, 1000, 300), may_change=(
                         # A call during which the stack grows begins twice; the sorting begins at random.
                         *(("go/scanner.(*Scanner).switch3", name) for name in ("tok0", "tok1", "ch2", "tok2")),
                         *(("go/ast.(*byPos).Swap", name) for name in ("i", "j"))))
# The features that crates find out in their build scripts.
RUST_FEATURES = {"unicase": ["__unicase__iter_cmp", "__unicase__default_hasher", "__unicase__const_fns",
                             "__unicase__core_and_alloc"], "memchr": ['feature="std"', "memchr_runtime_simd"],
                 "pulldown-cmark": ['feature="getopts"']}
MARKDOWN = """# Title {#id}

A *word*, **strong** ~~gone~~ `code` and [a link](http://example.org "title"), <b>html</b> &amp; [ref].[^1]

| a | b |
|---|:-:|
| 1 | 2 |

- [x] done
- [ ] not yet
  1. nested
  2. again

> quoted
> lines

```rust
fn main() {}
```

[ref]: /url 'Title'
[^1]: A footnote.
"""


class Sources:
    def __init__(self, cache):
        self.cache = cache
        self.release = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
        self.architecture = run(["dpkg", "--print-architecture"]).strip()

    def folder(self, package):
        """The folder with the sources of a Debian package."""
        folder = self.cache / package
        if not folder.exists():
            apt = configuration(self.cache, self.architecture, self.release, of_sources=True)
            with tempfile.TemporaryDirectory(dir=self.cache) as draft:
                download_source(apt, package, Path(draft)).rename(folder)
        return folder

    def crates(self, packages):
        """The folders with the crates of librust-*-dev packages, by their names without the version."""
        folder = self.cache / "crates"
        if not folder.exists():
            apt = configuration(self.cache, self.architecture, self.release)
            with tempfile.TemporaryDirectory(dir=self.cache) as draft:
                for archive in download(apt, packages, Path(draft)):
                    run(["dpkg-deb", "-x", str(archive), draft])
                (Path(draft) / "usr/share/cargo/registry").rename(folder)
        return {path.name.rpartition("-")[0]: path for path in folder.iterdir()}


def compile_c(program, folders, folder, compiler, options, counted=False):
    """Each file by itself, and in the folder of its sources: its path is then the same everywhere."""
    files = []
    for each in program.files:
        number, _, pattern = each.partition("/")
        files += sorted(path for path in folders[int(number)].glob(pattern) if path.name not in LEFT_OUT)
    flags = [f"-I{folders[int(flag[2:])]}" if re.fullmatch(r"-I\d", flag) else flag for flag in program.flags]
    # Paths of equal length: lua keeps its own.
    made_in = folder / ("-OC" if counted else options[0])
    made_in.mkdir(exist_ok=True)
    target = made_in / program.name
    if counted:
        counter = folder / "call_counter.c"
        counter.write_text(CALL_COUNTER)
        options = [*options, "-finstrument-functions"]
        files = [*files, counter]
    compiled = [flag for flag in flags if not flag.startswith("-l")]
    made = []
    for number, file in enumerate(files):
        made.append(made_in / f"{number}.o")
        subprocess.run([compiler, "-g", *options, "-w", *compiled, "-c", file, "-o", made[-1]], check=True)
    subprocess.run([compiler, *options, "-o", target, *made, *(flag for flag in flags if flag.startswith("-l"))], check=True)
    return target


def records_of(command, kind, folder):
    result = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=500, check=False)
    records = [json.loads(line) for line in result.stdout.splitlines()]
    return [record for record in records if record["type"] == kind], result


def functions_of(program_file):
    """[address, symbol] of all functions, without their cold parts."""
    listing = subprocess.run(["nm", "--defined-only", program_file], check=True, capture_output=True, text=True).stdout
    return [(int(match[1], 16), match[2]) for match in re.finditer(r"^([0-9a-f]+) [tTwW] (\S+)$", listing, re.M)
            if not match[2].endswith(".cold")]


def shell(program_file, run_text):
    """The command of a run: without address randomization, as in gdb."""
    return ["setarch", "-R", "sh", "-c", f"exec {shlex.quote(str(program_file))} {run_text}"]


def inlined_entries(program_file):
    """Where inlined functions begin, in the words of readelf: gdb has no blocks for those without ranges there."""
    listing = subprocess.run(["readelf", "--debug-dump=info", program_file], check=True, capture_output=True, text=True,
                             errors="replace").stdout
    return {int(match[1], 16) for match in re.finditer(r"DW_AT_(?:entry_pc|low_pc)\s*: (?:\(index[^)]*\): )?(?:0x)?([0-9a-f]+)", listing)}


class LineRows:
    """gdb's line tables."""

    def __init__(self, rows):
        self.lines = defaultdict(dict)  # FILE:LINE -> address of a statement -> entry of its function
        self.functions = {}
        self.ends = defaultdict(set)  # FILE:LINE -> (begin, end) of its code
        for (file, line, address, function, is_statement), following in zip(rows, [*rows[1:], [None] * 5]):
            if function is None or line == 0:
                continue
            file = file.rpartition("/src/")[2] if file.endswith(".go") else file  # gdb follows links
            self.functions[address] = function
            if is_statement:
                self.lines[f"{file}:{line}"][address] = function
            self.ends[f"{file}:{line}"].add((address, following[2] if following[3] == function and following[2] > address
                                             else address))
        self.sorted = sorted(self.functions)

    def has(self, line, address):
        """Whether the line has code at the address, or ends there: its last row may have no code."""
        return any(begin <= address <= end for begin, end in self.ends[line])

    def function_at(self, address):
        return self.functions[self.sorted[bisect.bisect_right(self.sorted, address) - 1]]


class Comparison:
    """One build of a program."""

    def __init__(self, tap, options, program, file, folder, title, is_optimized):
        self.tap, self.uprobectl, self.program, self.file, self.folder = tap, options.uprobectl, program, file, folder
        self.title, self.is_optimized, self.why_not_attached = title, is_optimized, options.why_not_attached

    def check(self, what, problems, compared, least):
        if compared < least:
            problems = [f"only {compared} were compared", *problems]
        self.tap.check(f"{self.title}: {what}", [problem[:500] for problem in problems[:40]])
        print(f"# {self.title}: {compared} {what}", flush=True)

    def compare(self):
        functions = [(address, name) for address, name in functions_of(self.file) if re.search(self.program.symbols, name)]
        records, _ = records_of([self.uprobectl, "list-args", "--json", self.file, *sorted({name for _, name in functions})],
                                "arguments", self.folder)
        ours = {int(record["address"], 16): record for record in records}
        captured = {} if self.why_not_attached else self.capture(ours)
        results = self.ask_gdb(functions, captured)
        self.compare_parameters(ours, results["functions"])
        self.compare_locations(results)
        if self.why_not_attached:
            self.tap.skip(f"{self.title}: values at calls", self.why_not_attached)
        else:
            self.compare_values(results)

    def capture(self, ours):
        """The values at the first calls, by function. With more than 64 in a run structures are not read."""
        with_parameters = sorted(address for address, record in ours.items() if record["parameters"])
        found = defaultdict(list)
        for begin in range(0, len(with_parameters), 60):  # names may have more
            part = [ours[address] for address in with_parameters[begin:begin + 60]]
            by_offset = {record["image_offset"]: record["address"] for record in part}
            records, result = records_of(
                [self.uprobectl, "attach", "--json", "--args-depth", "5", "--max-rate", f"{CALLS}/min", "--all", self.file,
                 *sorted({record["symbol"] for record in part}), "--",
                 *shell(self.file, self.program.runs[0])], "event", self.folder)
            if result.returncode not in (0, 1):
                raise RuntimeError(result.stderr)
            for record in records:
                if record["image_offset"] in by_offset and len(calls := found[by_offset[record["image_offset"]]]) < CALLS:
                    calls.append({argument["name"]: argument for argument in record["arguments"]})
        return found

    def ask_gdb(self, functions, captured, addresses=()):
        plan, results = self.folder / "plan.json", self.folder / "results.json"
        results.unlink(missing_ok=True)
        plan.write_text(json.dumps({"functions": [hex(address) for address, _ in functions], "addresses": sorted(addresses), "files": "^$" if addresses else self.program.paths, "captured": captured,
                                    "run": self.program.runs[0], "prologue": not self.is_optimized and self.program.language != "go",
                                    "language": self.program.language}))
        setup = f"import sys; sys.path.insert(0, {str(HERE)!r}); PLAN, RESULTS = {str(plan)!r}, {str(results)!r}"
        result = subprocess.run(["gdb", "-batch", "-nx", "-readnow", "-ex", f"python {setup}", "-x",
                                 HERE / "real_programs_in_gdb.py", self.file], capture_output=True, text=True, timeout=500,
                                cwd=self.folder, check=False)
        if not results.exists():
            raise RuntimeError(result.stdout[-2000:] + result.stderr[-4000:])
        return json.loads(results.read_text())

    def compare_parameters(self, ours, gdbs):
        problems, compared = [], 0
        for address, theirs in gdbs.items():
            record = ours.get(int(address, 16))
            if theirs is None:
                continue
            if record is None:
                problems.append(f"{theirs['name']} at {address}: list-args does not have it")
                continue
            names = [parameter["name"] for parameter in record["parameters"] if parameter["name"]]  # gdb has no others
            if self.program.language == "go":  # gdb has the results after the parameters, and no lines
                theirs["parameters"], theirs["line"] = theirs["parameters"][:len(names)], record["source_line"]
            if names != theirs["parameters"] or record["source_line"] != theirs["line"]:
                problems.append(f"{theirs['name']}: {names} {record['source_line']}, gdb: {theirs['parameters']} {theirs['line']}")
            compared += len(names)
        self.check("parameters by name", problems, compared, self.program.least[0])

    def compare_locations(self, results):
        problems, compared = [], 0
        by_name = defaultdict(set)
        for address, theirs in results["functions"].items():
            if theirs is not None:
                by_name[theirs["name"]].add(int(address, 16))
        found = self.resolve(["--all", "--clones"], by_name)
        for name, addresses in by_name.items():
            compared += 1
            if missing := addresses - {address for address, _ in found[name]}:
                problems.append(f"{name}: {found[name]}, gdb has {sorted(map(hex, missing))}")
        rows = LineRows(results["rows"])
        found = self.resolve([], rows.lines)
        entries = {int(address, 16) for address in results["functions"]}
        others = {(line, address, function) for line in rows.lines for address, function in found[line]
                  if address not in entries and not rows.has(line, address)}
        # The opening line of an inlined function, and a line that is only a call of one, need not have a row.
        inlined = self.ask_gdb([], {}, {address for _, address, _ in others})["inlined"] if others else {}
        begins = inlined_entries(self.file) if others else set()
        problems += [f"{line}: {address:#x} (inlined {function}), gdb: {inlined[str(address)]}, {rows.lines[line]}"
                     for line, address, function in others
                     if address not in begins and not (function in inlined[str(address)] or function is None and inlined[str(address)])]
        for line, statements in rows.lines.items():
            compared += 1
            addresses = {address for address, _ in found[line]}
            if missing := set(statements.values()) - {rows.function_at(address) for address in addresses}:
                problems.append(f"{line}: not in the functions at {sorted(map(hex, missing))}, only {sorted(map(hex, addresses))}")
        self.check("locations of functions and lines", problems, compared, self.program.least[1])

    def resolve(self, options, names):
        """(address, inlined function) by request."""
        found, names = defaultdict(set), sorted(names)
        for begin in range(0, len(names), 500):
            records, _ = records_of([self.uprobectl, "resolve", "--json", *options, self.file, *names[begin:begin + 500]], "match",
                                    self.folder)
            for record in records:
                found[record["request"]].add((int(record["address"], 16), record.get("inlined")))
        return found

    def compare_values(self, results):
        verdicts = Counter(verdict for _, _, verdict, _ in results["values"])
        problems = [f"{function} {parameter}: {detail}" for function, parameter, verdict, detail in results["values"]
                    if verdict == "wrong" and (function, parameter) not in self.program.may_change]
        problems += [f"{function}: gdb does not see the calls of attach" for function in results["unseen"]]
        print(f"# {self.title}: {dict(verdicts)}")
        self.check("values at calls", problems, verdicts["equal"], self.program.least[2])


def calls_of(program, folder, file):
    """How often each function was called, by its name, as the program itself has counted."""
    names = {}
    for address, symbol in functions_of(file):
        names.setdefault(address, symbol)
    calls = Counter()
    for number, run_text in enumerate(program.runs):
        counts = folder / f"counts-{number}"
        subprocess.run(shell(file, run_text), check=True, cwd=folder, env={**os.environ, "CALL_COUNTS": str(counts)})
        for line in counts.read_text().splitlines():
            address, count = line.split()
            calls[names[int(address, 16)]] += int(count)
    return calls


def hits_of(uprobectl, program, folder, file, names, options):
    """The hits of each function, and the functions whose hits are marked as approximate."""
    hits, approximate = Counter(), set()
    for run_text in program.runs:
        records, result = records_of([uprobectl, "attach", "--json", "--count", "--all", "--keep-going", *options, file, *names, "--",
                                      *shell(file, run_text)], "count", folder)
        if not records:
            raise RuntimeError(result.stderr)
        for record in records:
            name = (record["demangled"] or record["symbol"]).split(".")[0]
            hits[name] += record["count"]
            if record.get("approximate"):
                approximate.add(name)
    return hits, approximate


def compare_counts(tap, uprobectl, program, folders, folder, compiler, plain, optimized):
    title = f"{program.name}, {compiler}"
    calls = calls_of(program, folder, compile_c(program, folders, folder, compiler, ["-O0"], counted=True))
    hits, _ = hits_of(uprobectl, program, folder, plain, sorted(calls), [])
    tap.check(f"{title}: hits at -O0 equal calls", [f"{name}: {hits[name]} hits, {count} calls" for name, count in calls.items()
                                                   if hits[name] != count])
    hits, approximate = hits_of(uprobectl, program, folder, optimized, sorted(calls), ["--inlined"])
    for name in program.by_address:
        del calls[name]
    more = [f"{name}: {hits[name]} hits, {count} calls" for name, count in calls.items()
            if name not in approximate and hits[name] > count]
    fewer = {name: (hits[name], count) for name, count in calls.items() if name not in approximate and hits[name] < count}
    print(f"# {title}: {len(calls)} functions called, {len(approximate)} approximate, fewer hits: {fewer}")
    tap.check(f"{title}: hits at -O2 are not more than calls, or approximate", more)


def compile_rust(crates, folder, level):
    """The program with its crates, as cargo would build them for Rust 2018."""
    made = folder / f"rust{level}"
    made.mkdir()
    options = [RUSTC, "-g", "-C", f"opt-level={level[2:]}", "-A", "warnings", "-L", made, "--out-dir", made]

    def build(name, file, kind, *needed):
        features = [word for feature in RUST_FEATURES.get(name, ()) for word in ("--cfg", feature)]
        crate_names = {crate: crate.replace("-", "_") for crate in (name, *needed)}
        externs = [word for crate in needed for word in (
            "--extern", f"{crate_names[crate]}={made}/lib{crate_names[crate]}.rlib")]  # rustc has crates of its own
        subprocess.run([*options, *features, "--edition=2018", "--crate-type", kind, "--crate-name", crate_names[name], *externs,
                        crates[name] / file], check=True)

    for name in ("bitflags", "memchr", "unicase", "unicode-width"):
        build(name, "src/lib.rs", "rlib")
    build("getopts", "src/lib.rs", "rlib", "unicode-width")
    build("pulldown-cmark", "src/lib.rs", "rlib", "bitflags", "memchr", "unicase")
    build("pulldown-cmark", "src/main.rs", "bin", "pulldown-cmark", "getopts")
    return made / "pulldown_cmark"


def compile_go(folder, _level):
    made = folder / "gofmt"
    subprocess.run(["go", "build", "-o", made, "cmd/gofmt"], check=True, cwd=folder,
                   env={**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "", "GOCACHE": str(folder / "go-cache")})
    return made


def compare_other(tap, options, program, compiler, level, compile_level, prepare):
    """A program that is not of C, by its compiler."""
    if not shutil.which(compiler):
        tap.skip(program.name, f"no {compiler} on this machine")
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        prepare(folder)
        Comparison(tap, options, program, compile_level(folder, level), folder, f"{program.name} {level}".strip(),
                   level != "-O0").compare()


def compare_rust(tap, options, sources):
    try:
        crates = sources.crates(RUST_PROGRAM.packages)
    except Unavailable as reason:
        tap.skip(RUST_PROGRAM.name, f"cannot be had: {reason}")
        return
    compare_other(tap, options, RUST_PROGRAM, RUSTC, "-O0", lambda folder, level: compile_rust(crates, folder, level),
                  lambda folder: (folder / "text.md").write_text(MARKDOWN))


def compare_go(tap, options):
    def prepare(folder):
        root = subprocess.run(["go", "env", "GOROOT"], check=True, capture_output=True, text=True).stdout.strip()
        shutil.copy(f"{root}/src/cmd/gofmt/simplify.go", folder / "text.go")

    compare_other(tap, options, GO_PROGRAM, "go", "", compile_go, prepare)


def compare_program(tap, options, sources, program):
    try:
        folders = [sources.folder(package) for package in program.packages]
    except Unavailable as reason:
        tap.skip(program.name, f"cannot be had: {reason}")
        return
    for compiler in ("gcc", "clang-19"):
        if not shutil.which(compiler):
            tap.skip(f"{program.name}, {compiler}", f"no {compiler} on this machine")
            continue
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            if program.prepare is not None:
                program.prepare(folders, folder)
            built = {}
            for level in ("-O0", "-O2"):
                built[level] = compile_c(program, folders, folder, compiler, [level])
                Comparison(tap, options, program, built[level], folder, f"{program.name}, {compiler} {level}",
                           level != "-O0").compare()
            if options.why_not_attached:
                tap.skip(f"{program.name}, {compiler}: hits", options.why_not_attached)
            else:
                compare_counts(tap, options.uprobectl, program, folders, folder, compiler, built["-O0"], built["-O2"])


def why_not_attached(options):
    if os.geteuid() != 0:
        return "only root attaches"
    reason = run_native_suite.why_unusable(argparse.Namespace(bin=options.uprobectl, fixtures=options.fixtures.resolve()))
    return reason and f"machine uprobes unusable: {reason}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("uprobectl", type=lambda text: str(Path(text).resolve()))
    parser.add_argument("cache", type=Path)
    parser.add_argument("fixtures", type=Path)
    parser.add_argument("--program", action="append")
    options = parser.parse_args()
    options.why_not_attached = why_not_attached(options)
    tap = Tap()
    options.cache.mkdir(parents=True, exist_ok=True)
    sources = Sources(options.cache.resolve())
    for program in PROGRAMS:
        if not options.program or program.name in options.program:
            compare_program(tap, options, sources, program)
    if not options.program or RUST_PROGRAM.name in options.program:
        compare_rust(tap, options, sources)
    if not options.program or GO_PROGRAM.name in options.program:
        compare_go(tap, options)
    tap.done()


if __name__ == "__main__":
    main()
