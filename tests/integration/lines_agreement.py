#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""lines_agreement.py UPROBECTL
The locations of every line of programs that the compilers here make, against the rows of their line
tables as llvm-dwarfdump shows them, the functions and inlined copies that llvm-symbolizer names
there, and, if there is one, the addresses of perf probe. Prints TAP."""

import json
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections import defaultdict
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from tap import Tap

HEADER = """
#pragma once
extern volatile int sink;
template <typename T> struct Box {
  T value;
  __attribute__((noinline)) T get(int by) {
    sink = by;
    return value + by;
  }
};
__attribute__((always_inline)) inline int tiny(int x)
{
  sink = x;
  return sink + x;
}
"""
FIRST = """
#include "part.h"
volatile int sink;
int second(int);
static __attribute__((noinline)) int loop(int n) {
  int sum = 0;
  for (int i = 0; i < n; ++i)
    sum += tiny(i) + sink;
  return sum;
}
namespace shop {
struct Store {
  int count = 0;
  int add(int by);
};
int Store::add(int by) {
  auto twice = [&](int x) {
    return x + by;
  };
  count += twice(by) + tiny(count);
  return count;
}
}
int main(int argc, char**) {
  shop::Store store;
  Box<int> a{argc};
  Box<long> b{argc};
  if (argc > 5)
    return tiny(argc);
  return loop(argc) + store.add(argc) + a.get(1) + static_cast<int>(b.get(2)) + second(argc);
}
"""
SECOND = """
#include "part.h"
int second(int x) {
  Box<short> c{static_cast<short>(x)};
  return c.get(3) + tiny(x);
}
"""
# Lines that open functions: these have one address in each copy.
OPENINGS = {("part.h", 6), ("part.h", 11), ("part.h", 12), ("first.cpp", 5), ("first.cpp", 12), ("first.cpp", 16),
            ("first.cpp", 17), ("first.cpp", 24), ("second.cpp", 3)}
SOURCES = {"part.h": HEADER, "first.cpp": FIRST, "second.cpp": SECOND}


def compile_program(folder, compiler, options):
    for name, text in SOURCES.items():
        (folder / name).write_text(text)
    program = folder / "program"
    subprocess.run([compiler, "-w", *options, "first.cpp", "second.cpp", "-o", program], cwd=folder,
                   check=True, capture_output=True)
    return program


def shown_runs(program):
    """(file, line) -> the runs of its rows, as llvm-dwarfdump shows them: the addresses of those that
    begin a statement"""
    text = subprocess.run(["llvm-dwarfdump-19", "--debug-line", program], capture_output=True, text=True,
                          check=True).stdout
    runs = defaultdict(list)
    for table in text.split("debug_line[")[1:]:
        names = {int(index): Path(name).name for index, name in
                 re.findall(r'file_names\[\s*(\d+)\]:\n\s+name: "([^"]+)"', table)}
        previous = None
        for address, line, file, flags in re.findall(
                r"^(0x[0-9a-f]{16})\s+(\d+)\s+\d+\s+(\d+)((?:\s+\S+)*)$", table, re.M):
            position = (names.get(int(file)), int(line))
            if "end_sequence" in flags:
                previous = None
                continue
            if position != previous:
                runs[position].append([])
            previous = position
            if "is_stmt" in flags:
                runs[position][-1].append(int(address, 16))
    return {position: [run for run in found if run] for position, found in runs.items()}


def resolved(uprobectl, target, file, options=()):
    """line -> records"""
    lines = range(1, SOURCES[file].count("\n") + 1)
    result = subprocess.run([uprobectl, "resolve", "--json", *options, target,
                             *(f"{file}:{line}" for line in lines)], capture_output=True, text=True)
    records = defaultdict(list)
    for record in map(json.loads, result.stdout.splitlines()):
        if record["type"] == "match":
            records[record["line"]].append(record)
        elif record["code"] != "no_code":
            raise SystemExit(f"{target} {file}: {record['message']}")
    return records


def frames_at(program, addresses):
    """address -> the functions there, the innermost first, as llvm-symbolizer names them"""
    if not addresses:
        return {}
    out = subprocess.run(["llvm-symbolizer-19", "--output-style=JSON", "-e", program, *map(hex, addresses)],
                         capture_output=True, text=True, check=True).stdout
    return {int(answer["Address"], 16): [frame["FunctionName"] for frame in answer["Symbol"]]
            for answer in json.loads(out)}


def complaints(uprobectl, program):
    """What is wrong with the addresses of all lines."""
    rows = shown_runs(program)
    wrong = []
    count = 0
    for file in SOURCES:
        found = resolved(uprobectl, program, file)
        names = frames_at(program, [int(record["address"], 16) for records in found.values()
                                    for record in records])
        for line in range(1, SOURCES[file].count("\n") + 1):
            runs = [run for run in rows.get((file, line), []) if run]
            ours = {int(record["address"], 16): record for record in found[line]}
            count += len(ours)
            statements = {address for run in runs for address in run}
            if runs and not ours.keys() <= statements:
                wrong.append(f"{file}:{line}: {set(map(hex, ours))} are not all among {set(map(hex, statements))}")
            opens = (file, line) in OPENINGS
            without = [run for run in runs if not ours.keys() & set(run)]
            if without and not (opens and ours):
                wrong.append(f"{file}:{line}: no address in the run {list(map(hex, without[0]))}")
            for address, record in ours.items():
                frames = names[address]
                if record["inlined"] and frames[0] != record["inlined"] and runs:
                    wrong.append(f"{file}:{line}: inlined {record['inlined']}, not {frames[0]}")
                if not record["inlined"] and len(frames) > 1 and runs:
                    wrong.append(f"{file}:{line}: in none of the inlined {frames}")
    if count < 30:
        wrong.append(f"only {count} addresses to compare")
    return wrong


def perf_offsets(program, file, line):
    """Offsets; None for a line that perf refuses."""
    result = subprocess.run(["perf", "probe", "-x", program, "-D", f"{file}:{line}"],
                            capture_output=True, text=True)
    if result.returncode != 0 or "rror" in result.stderr:
        return None
    return {int(offset, 16) for offset in re.findall(r":0x([0-9a-f]+)", result.stdout)}


def perf_differences(uprobectl, program):
    """Where --all has other offsets than perf probe."""
    compared = 0
    for file in SOURCES:
        found = resolved(uprobectl, program, file, ["--all"])
        for line, records in found.items():
            theirs = perf_offsets(program, file, line)
            if theirs is None:
                continue
            ours = {int(record["offset"], 16) for record in records}
            compared += 1
            if (file, line) in OPENINGS:
                if not ours <= theirs:
                    yield f"{file}:{line}: {set(map(hex, ours))}, perf has {set(map(hex, theirs))}"
            elif ours != theirs:
                yield f"{file}:{line}: {set(map(hex, ours))}, perf has {set(map(hex, theirs))}"
    if compared < 10:
        yield f"only {compared} lines to compare"


def offsets(uprobectl, target, *options):
    result = subprocess.run([uprobectl, "resolve", "--json", *options, target, "first.cpp:20", "part.h:13"],
                            capture_output=True, text=True)
    records = list(map(json.loads, result.stdout.splitlines()))
    return [(record.get("image_offset"), record.get("symbol"), record.get("line"), record.get("inlined"))
            for record in records]


def debug_file_problems(uprobectl, folder):
    """A stripped library and its debug file; the library in an archive."""
    (folder / "part.h").write_text(HEADER)
    (folder / "first.cpp").write_text(FIRST.replace("int main", "int run"))
    library = folder / "libpart.so"
    subprocess.run(["g++", "-w", "-O2", "-g", "-fPIC", "-shared", "-Wl,--build-id", "first.cpp", "-o",
                    library], cwd=folder, check=True, capture_output=True)
    whole = offsets(uprobectl, library)
    (folder / "symbols").mkdir()
    subprocess.run(["objcopy", "--only-keep-debug", library, folder / "symbols" / "libpart.debug"], check=True)
    subprocess.run(["strip", library], check=True)
    with zipfile.ZipFile(folder / "app.apk", "w") as archive:
        archive.write(library, "lib/x86_64/libpart.so")
    if len(whole) < 3 or any(name is None for name, *_ in whole):
        yield f"the whole library: {whole}"
    for target in (library, f"{folder}/app.apk!/lib/x86_64/libpart.so"):
        stripped = offsets(uprobectl, target, "--debug-dir", folder / "symbols")
        if stripped != whole:
            yield f"{target}: {stripped}, not {whole}"


def main():
    uprobectl = sys.argv[1]
    tap = Tap()
    cases = [(compiler, level, f"-gdwarf-{version}", *more)
             for compiler in ("g++", "clang++-19") if shutil.which(compiler)
             for level in ("-O0", "-O2")
             for version, more in ((4, []), (5, []), (5, ["-gz"]), (4, ["-gsplit-dwarf"]),
                                   (5, ["-gsplit-dwarf"]))]
    cases.append(("g++", "-O2", "-gdwarf-5", "-flto"))
    with tempfile.TemporaryDirectory() as name:
        for number, (compiler, *options) in enumerate(cases):
            folder = Path(name, str(number))
            folder.mkdir()
            program = compile_program(folder, compiler, options)
            case = f"{compiler} {' '.join(options)}"
            tap.check(f"{case}: addresses are the statements of the line", complaints(uprobectl, program))
            if len(options) > 2:
                continue
            if shutil.which("perf"):
                tap.check(f"{case}: with --all the offsets of perf probe",
                          list(perf_differences(uprobectl, program)))
            else:
                tap.skip(f"{case}: with --all the offsets of perf probe", "no perf on this machine")
        folder = Path(name, "stripped")
        folder.mkdir()
        tap.check("a stripped library has the addresses of its debug file, in an archive too",
                  list(debug_file_problems(uprobectl, folder)))
    tap.done()


if __name__ == "__main__":
    main()
