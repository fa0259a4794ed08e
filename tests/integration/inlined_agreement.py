#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""inlined_agreement.py INLINE_COUNTER FRAME_LISTER
Counts of inlined calls in programs whose source says how many there are, as each compiler here
writes them: DWARF 4 and 5, compressed sections, split units, link-time optimization, a debug file of
its own, an index of names; the callers and entries of inlined instances against the source and llvm-symbolizer; and, over
a program of many units, what llvm-dwarfdump and llvm-symbolizer show. Prints TAP."""

import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from frames_agreement import all_addresses, frame_differences, frames_of
from tap import Tap

# Nothing folds: every value is volatile.
COMMON = """
extern volatile int sink;
#define INLINE __attribute__((always_inline)) inline
struct Counter {
  int value;
  INLINE void add(int by) { sink += by; value = sink; }
  void out_of_line(int by);
};
INLINE int at_five_points(int x) { sink = x; return sink + x; }
extern "C" INLINE int c_named(int x) { sink = x; return sink; }
INLINE int once_more(int x) { sink = at_five_points(x); return sink; }
static INLINE int in_both_files(int x) { sink = x; return sink; }
int second(int);
"""
# Enough entries to use up what the sections of the program itself would allow.
PADDING = "\n".join(["#ifdef PADDING", *(f"int padding_{i}(int a, int b) {{ return a * {i} + b; }}"
                                         for i in range(1000)), "#endif"])
FIRST = COMMON + PADDING + """
volatile int sink;
__attribute__((noinline)) int never(int x) { sink = x; return sink; }
__attribute__((noinline)) void Counter::out_of_line(int by) { add(by); add(by + 1); add(by + 2); }
int main(int argc, char**) {
  Counter counter{argc};
  counter.out_of_line(at_five_points(argc) + at_five_points(argc + 1));
  return once_more(argc) + once_more(argc + 1) + never(argc) + c_named(1) + in_both_files(2) +
         second(argc);
}
"""
SECOND = COMMON + """
int second(int x) { return at_five_points(x) + in_both_files(x); }
"""
EXPECTED = {
    "_Z14at_five_pointsi": 5, "_ZN7Counter3addEi": 3, "c_named": 1, "_Z9once_morei": 2,
    "_Z5neveri": 0, "_ZL13in_both_filesi": 2, "main": 0, "no_such_function": "unknown",
}
# Static functions may have no linkage name; then they are known by the other.
OTHER_NAMES = {"_ZL13in_both_filesi": "in_both_files"}


def counts(counter, program, names, folder="/nonexistent"):
    said = subprocess.run([counter, program, folder, *names], capture_output=True, text=True)
    if said.returncode != 0:
        return said.stdout.strip()
    return {name: int(count) if count != "unknown" else count
            for name, count in (line.rsplit(" ", 1) for line in said.stdout.splitlines())}


def complaints(counter, program, folder="/nonexistent"):
    """What is wrong with the counts."""
    found = counts(counter, program, [*EXPECTED, *OTHER_NAMES.values()], folder)
    if isinstance(found, str):
        return [found]
    for name, other in OTHER_NAMES.items():
        if found[name] == "unknown":
            found[name] = found[other]
        del found[other]
    return [f"{name}: {found[name]}, not {count}" for name, count in EXPECTED.items()
            if found[name] != count]


def instance_complaints(counter, program):
    """What is wrong with callers, call lines and entries."""
    sources = {f"{name}.cpp": text.splitlines() for name, text in (("first", FIRST), ("second", SECOND))}
    calls = {"_Z14at_five_pointsi": "at_five_points(", "_ZN7Counter3addEi": "add(", "c_named": "c_named("}
    callers = {"_Z14at_five_pointsi": {"main", "_Z6secondi"}, "_ZN7Counter3addEi": {
        "_ZN7Counter11out_of_lineEi"}, "c_named": {"main"}}
    said = subprocess.run([counter, "--instances", program, "/nonexistent", *calls],
                          capture_output=True, text=True).stdout
    instances = [line.split(" ") for line in said.splitlines()]
    problems = []
    if len(instances) != 5 + 3 + 1:
        problems.append(f"{len(instances)} instances: {said}")
    frames = frames_of(["llvm-symbolizer-19", "--inlines", "--no-demangle", f"--obj={program}"],
                       [int(instance[1], 16) for instance in instances]) if instances else []
    if sum("approximate" in instance for instance in instances) > 2:
        problems.append(f"more than two entries are not known: {said}")
    for (name, entry, caller, call, *approximate), there in zip(instances, frames):
        file, line = call.rsplit(":", 1)
        if calls[name] not in sources[Path(file).name][int(line) - 1]:
            problems.append(f"{name} is not called at {call}")
        if caller not in callers[name]:
            problems.append(f"{name} is inlined into {caller}")
        # The frame of the instance, and that of its call.
        if not approximate and not any(one[0] == name and other[1].startswith(call + ":")
                                       for one, other in zip(there, there[1:])):
            problems.append(f"{name} is not at {entry}: {there}")
    return problems


def listed_instances(counter, program):
    """The lines of all instances of all functions."""
    names = [*EXPECTED, *OTHER_NAMES.values()]
    result = subprocess.run([counter, "--instances", program, "/nonexistent", *names],
                            capture_output=True, text=True)
    if result.returncode not in (0, 1):
        return [f"exit status {result.returncode}"]
    return result.stdout.splitlines()


def index_complaints(counter, program):
    """What is wrong with instances that are found by .debug_names: with it and without, there are the
    same; with a damaged one, none that is not there."""
    sections = subprocess.run(["readelf", "-SW", program], capture_output=True, text=True, check=True).stdout
    found = re.search(r"\.debug_names\s+PROGBITS\s+[0-9a-f]+ ([0-9a-f]+) ([0-9a-f]+)", sections)
    if not found:
        return ["no .debug_names"]
    offset, size = int(found[1], 16), int(found[2], 16)
    without = program.with_name("without")
    subprocess.run(["objcopy", "--remove-section", ".debug_names", program, without], check=True)
    scanned = listed_instances(counter, without)
    problems = []
    if listed_instances(counter, program) != scanned:
        problems.append(f"not the same: {listed_instances(counter, program)}, {scanned}")
    content = program.read_bytes()
    damaged = program.with_name("damaged")
    for at in range(offset, offset + size, max(1, size // 150)):
        damaged.write_bytes(content[:at] + bytes([content[at] ^ 1 << at % 8]) + content[at + 1:])
        if wrong := set(listed_instances(counter, damaged)) - set(scanned):
            problems.append(f"a wrong byte at {at - offset:#x} of the index: {wrong}")
    return problems


def compile_program(folder, compiler, options):
    for name, text in (("first", FIRST), ("second", SECOND)):
        (folder / f"{name}.cpp").write_text(text)
    program = folder / "program"
    subprocess.run([compiler, "-O2", "-w", *options, "first.cpp", "second.cpp", "-o", "program"],
                   cwd=folder, check=True, capture_output=True)
    return program


SCOPES = {"DW_TAG_namespace": "(anonymous namespace)", "DW_TAG_structure_type": "(anonymous struct)",
          "DW_TAG_class_type": "(anonymous struct)", "DW_TAG_union_type": "(anonymous union)"}


class Entry:
    def __init__(self, text, parent):
        self.tag, self.parent = re.search(r"DW_TAG_\w+", text)[0], parent
        self.is_external = "DW_AT_external" in text
        # The linker has left its code out: another unit has the same function.
        is_at_zero = re.search(r"DW_AT_low_pc\s*\(0x0+\)", text) is not None
        self.is_dead = (self.tag == "DW_TAG_subprogram" and is_at_zero) or (parent is not None and parent.is_dead)
        self.has_code = re.search(r"DW_AT_(low_pc|ranges|entry_pc)", text) is not None
        self.positions = dict(re.findall(r"DW_AT_((?:call|decl)_(?:file|line|column))\s*\(([^)]*)\)", text))
        self.names = {key: name for key, name in re.findall(r'DW_AT_(name|linkage_name)\s*\("([^"]*)"\)', text)}
        self.references = {key: int(offset, 16) for key, offset in re.findall(
            r"DW_AT_(abstract_origin|specification)\s*\((0x[0-9a-f]+)", text)}


def entries_of(path):
    """Entries by offset, as llvm-dwarfdump shows them; the indentation says which are inside others."""
    text = subprocess.run(["llvm-dwarfdump-19", "--debug-info", path], capture_output=True, text=True,
                          check=True).stdout
    entries, around = {}, []
    for block in re.split(r"\n\s*\n", text):
        if not (start := re.match(r"\s*(0x[0-9a-f]+):( +)DW_TAG_", block)):
            continue
        around = [(indent, entry) for indent, entry in around if indent < len(start[2])]
        entry = Entry(block, around[-1][1] if around else None)
        entries[int(start[1], 16)] = entry
        around.append((len(start[2]), entry))
    return entries


def full_name(entries, entry):
    """The linkage name, else the name with the namespaces and classes around it."""
    while "linkage_name" not in entry.names and (others := list(entry.references.values())):
        entry = entries[others[0]]
    if "linkage_name" in entry.names:
        return entry.names["linkage_name"]
    name, scope = entry.names.get("name"), entry.parent
    while name and scope and scope.tag in SCOPES and not entry.is_external:  # extern "C"
        name, scope = f"{scope.names.get('name', SCOPES[scope.tag])}::{name}", scope.parent
    return name


def is_part(entries, copy):
    """Whether gcc has split the copy off its function: it is called at the function's name."""
    declared = {}
    origin = copy
    while origin is not None:
        declared = {key[5:]: value for key, value in origin.positions.items() if key[:5] == "decl_"} | declared
        origin = entries[next(iter(origin.references.values()))] if origin.references else None
    return "column" in declared and all(copy.positions.get(f"call_{key}") == declared.get(key)
                                        for key in ("file", "line", "column"))


def shown_by_dwarfdump(path):
    """Name -> how many inlined calls with code llvm-dwarfdump shows."""
    entries = entries_of(path)
    return Counter(filter(None, (full_name(entries, entry) for entry in entries.values()
                                 if entry.tag == "DW_TAG_inlined_subroutine" and entry.has_code and not entry.is_dead
                                 and not is_part(entries, entry))))


def main():
    counter, lister = sys.argv[1:]
    tap = Tap()
    cases = [(compiler, f"-gdwarf-{version}", *more)
             for compiler in ("g++", "clang++-19") if shutil.which(compiler)
             for version in (4, 5)
             for more in ([], ["-gz=zlib"], ["-gsplit-dwarf"], *([["-gdwarf64"]] if version == 5 else []))]
    cases += [("g++", "-g", "-flto"), ("g++", "-g", "-gsplit-dwarf", "-DPADDING")]
    with tempfile.TemporaryDirectory() as name:
        for number, (compiler, *options) in enumerate(cases):
            folder = Path(name, str(number))
            folder.mkdir()
            program = compile_program(folder, compiler, options)
            tap.check(f"{compiler} {' '.join(options)}",
                      complaints(counter, program) + instance_complaints(counter, program))

        for more in ([], ["-fuse-ld=lld", "-Wl,--debug-names"], ["-gdwarf64"], ["-gsplit-dwarf"]):
            if not shutil.which("clang++-19"):
                break
            folder = Path(name, "-".join(["index", *more]).replace(",", ""))
            folder.mkdir()
            program = compile_program(folder, "clang++-19", ["-gdwarf-5", "-gpubnames", *more])
            tap.check(f"by an index of names: {' '.join(more)}",
                      complaints(counter, program) + instance_complaints(counter, program)
                      + index_complaints(counter, program))

        folder = Path(name, "split")
        folder.mkdir()
        program = compile_program(folder, "g++", ["-g", "-Wl,--build-id=0xabcdef0123"])
        debug = folder / "debug/.build-id/ab/cdef0123.debug"
        debug.parent.mkdir(parents=True)
        subprocess.run(["objcopy", "--only-keep-debug", "--compress-debug-sections=zlib", program,
                        debug], check=True)
        subprocess.run(["strip", program], check=True)
        tap.check("the debug file is read where the program has none",
                  complaints(counter, program, folder / "debug"))
        said = counts(counter, program, ["main"])
        tap.check("without debug data no inlined function is found",
                  [] if said == "no debug information (.debug_info)" else [said])

        # A library of many units, made of this project's own sources, and read by llvm-dwarfdump.
        library = Path(name, "library.so")
        root = HERE.parent.parent
        sources = [*(root / "src/path").glob("*.cpp"), *(root / "src/util").glob("*.cpp")]
        llvm = subprocess.run(["llvm-config-19", "--includedir"], capture_output=True, text=True, check=True)
        subprocess.run(["g++", "-std=c++23", "-g", "-O2", "-fPIC", "-shared", "-D_GNU_SOURCE",
                        "-I", root / "include", "-I", root / "src", "-isystem", llvm.stdout.strip(),
                        *sources, "-lz", "-o", library], check=True)
        shown = shown_by_dwarfdump(library)
        names = list(shown)
        found = counts(counter, library, names)
        wrong = [found] if isinstance(found, str) else [
            f"{name}: {found[name]}, not {shown[name]}" for name in names
            if shown[name] != found[name]]
        if len(names) < 100:
            wrong.append(f"only {len(names)} names to compare")
        tap.check("over many units it agrees with llvm-dwarfdump", wrong[:20])
        tap.check("over many units frames agree with llvm-symbolizer",
                  frame_differences(lister, library, all_addresses(library, 10000))[:20])
    tap.done()


if __name__ == "__main__":
    main()
