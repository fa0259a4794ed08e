#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the locations of `uprobectl list-args` with gdb, parameter by parameter, in shop.cpp and, at
-O0, where calling conventions decide, in passing.cpp: where uprobectl says
that a value is at a function's first instruction, the bytes must be those that gdb shows for the
parameter; where gdb says that it was optimized out, uprobectl must say so, too. At -O0 gdb reads the
parameters after the prologue of the same call. Results are compared at the return with what gdb's
`finish` shows. With --arm64 the programs are those of cross compilers, and gdb-multiarch stops them in
QEMU's user emulation.

With --captured the values that `attach` captures are compared with gdb's, too: on this machine, for which
the test must be root, or in a guest with the Linux of --guest, where all programs run after one boot.
Usage: debug_info_agreement.py UPROBECTL SOURCE-FOLDER [--full] [--arm64 RUST-LIBRARY]
                               [--captured [--fixtures DIR | --guest SERIES --bin UPROBECTL-THERE --cache DIR]]"""

import argparse
import base64
import gzip
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "guest"), str(HERE.parent.parent / "tools")]
import run_native_suite  # noqa: E402
import tap  # noqa: E402
from guest_runner import GuestError  # noqa: E402
from guest_runner.boot import GuestRun, run_guest  # noqa: E402
from guest_runner.packages import fetch_busybox, fetch_kernel  # noqa: E402

# Debian's, whose standard library is known, rather than another one in PATH.
RUSTC = "/usr/bin/rustc" if os.path.exists("/usr/bin/rustc") else "rustc"
# Programs, compilers, options, DWARF versions.
QUICK = [("shop", "g++", "-O0", 5), ("shop", "g++", "-O2 -gz=zlib", 4),
         ("shop", "clang++-19", "-O0", 4), ("shop", "clang++-19", "-O2 -gz=zlib", 5),
         ("passing", "g++", "-O0 -fdebug-types-section", 4), ("passing", "g++", "-O0", 5),
         ("passing", "clang++-19", "-O0 -fdebug-types-section -gsplit-dwarf", 5),
         ("parts", "g++", "-O2", 5), ("parts", "g++", "-O0 -fdebug-types-section", 5),
         ("parts", "clang++-19", "-O0", 5), ("parts", "clang++-19", "-O2 -gpubnames", 5),
         ("parts", "clang++-19", "-O0 -gsplit-dwarf", 4),
         ("clones", "gcc", "-O2 -gsplit-dwarf", 5), ("orders", "gcc", "-O1", 4), ("orders", "gcc", "-O1", 5),
         ("values", "rustc", "-O0", 4), ("values", "rustc", "-O2", 4), ("main", "go", "", 4)]
FULL = [("shop", compiler, level, version) for compiler in ("g++", "clang++-19")
        for level in ("-O0", "-O1", "-Og", "-O2") for version in (4, 5)]
FULL += [("passing", compiler, "-O0" + types, version) for compiler in ("g++", "clang++-19")
         for types in ("", " -fdebug-types-section", " -fdebug-types-section -gsplit-dwarf")
         for version in (4, 5)
         # gdb 13 does not read what g++ 12 writes there.
         if (compiler, version) != ("g++", 5) or "split" not in types]
# Here the names of library classes, too, are in declarations apart from the definitions.
FULL += [("shop", "g++", "-O1 -fdebug-types-section", 5)]
FULL += [("parts", compiler, level + types, version) for compiler in ("g++", "clang++-19")
         for level in ("-O0", "-O1", "-O2") for types in ("", " -fdebug-types-section") for version in (4, 5)]
# At -O2 gdb 13 reads fewer locations of split units.
FULL += [("parts", compiler, "-O0 -gsplit-dwarf", version) for compiler in ("g++", "clang++-19") for version in (4, 5)]
FULL += [("clones", compiler, level, version) for compiler in ("gcc", "clang-19")
         for level in ("-O0", "-O1", "-Og", "-O2") for version in (4, 5)]
FULL += [("clones", "gcc", "-O2 -gsplit-dwarf", version) for version in (4, 5)]
FULL += [("values", "rustc", level, 4) for level in ("-O0", "-O1", "-O2", "-Os")]
FULL += [("main", "go", "", 4)]
# Each compiler once; the native plan has what else differs.
QUICK_ARM64 = [("shop", "g++", "-O2", 5), ("shop", "clang++-19", "-O0", 4), ("passing", "g++", "-O0", 4),
               ("passing", "clang++-19", "-O0", 5), ("parts", "clang++-19", "-O2", 5), ("values", "rustc", "-O2", 4), ("main", "go", "", 4)]


class Machine:
    """What programs are compiled with and run under."""
    name = "x86-64"
    gdb = ["gdb"]
    go = {}
    rust = ["-C", "relocation-model=static"]

    def cxx(self, compiler):
        return [compiler]

    def needed(self, compiler):
        return [RUSTC if compiler == "rustc" else compiler, *self.gdb]

    def debug(self, program, folder):
        """The first commands of gdb's script, and the process that it needs."""
        return ["run > /dev/stdout"], None


class Arm64(Machine):
    name = "arm64"
    gdb = ["gdb-multiarch"]
    go = {"GOARCH": "arm64"}

    def __init__(self, rust_library):
        self.rust_library = rust_library
        self.rust = ["--target", "aarch64-unknown-linux-gnu", "-C", "linker=aarch64-linux-gnu-gcc", "-C",
                     "target-feature=+crt-static", "-C", "relocation-model=static", "-L", rust_library]

    def cxx(self, compiler):
        cross = ["aarch64-linux-gnu-" + compiler] if compiler in ("gcc", "g++") else [compiler, "--target=aarch64-linux-gnu"]
        return [*cross, "-static"]

    def needed(self, compiler):
        return [*super().needed(compiler), "aarch64-linux-gnu-g++", "qemu-aarch64-static"]

    def debug(self, program, folder):
        socket = folder / "gdb-socket"
        socket.unlink(missing_ok=True)
        # Go's threads otherwise make the emulator hang, once in a while.
        environment = {"GOMAXPROCS": "1", "GODEBUG": "asyncpreemptoff=1", "GOGC": "off"}
        # pylint: disable-next=consider-using-with
        emulator = subprocess.Popen(["qemu-aarch64-static", "-g", socket, program], stdout=subprocess.DEVNULL,
                                    stderr=subprocess.DEVNULL, env=environment)
        while not socket.exists() and emulator.poll() is None:
            time.sleep(0.01)
        return [f"target remote {socket}", "continue"], emulator

def compile_program(machine, folder, name, compiler, options, version, sources):
    """In the folder, which split units have to lie in."""
    program = folder / f"{name}-{compiler}{options.replace(' ', '')}-{version}"
    if compiler == "rustc":
        subprocess.run([RUSTC, "--edition=2021", "-g", "-C", f"opt-level={options[2:]}", *machine.rust,
                        "--crate-name", name, "-o", program, sources / "values.rs"], check=True, cwd=folder)
        return program
    if compiler == "go":
        subprocess.run(["go", "build", "-trimpath", "-o", program, sources / "values.go"], check=True, cwd=folder,
                       env={**os.environ, **machine.go, "CGO_ENABLED": "0", "GO111MODULE": "off", "GOCACHE": str(folder / "go-cache")})
        return program
    source, standard = (f"{name}.c", "-std=gnu17") if compiler in ("gcc", "clang-19") else (f"{name}.cpp", "-std=c++20")
    # Each file of a program with several is compiled by itself, as split units have to be.
    files = sorted((sources / name).glob("*.cpp")) or [sources / source]
    subprocess.run([*machine.cxx(compiler), standard, "-w", "-Wno-psabi", *options.split(), "-g", f"-gdwarf-{version}", "-fno-pie",
                    "-no-pie", "-o", program, *files], check=True, cwd=folder)
    return program


def describe(uprobectl, name, program):
    names = subprocess.run(["nm", "--defined-only", program], check=True, capture_output=True,
                           text=True).stdout.split("\n")
    symbols = [line.split()[2] for line in names
               if re.search(rf" [TtW] _ZN{len(name)}{name}(?!.*(C[12]|D[012])E)", line) and "." not in line.split()[2]
               or name == "orders" and re.search(r" T orders_", line)
               or name == "clones" and re.search(r" t (joined|split)(\.|$)", line)
               or name == "main" and re.search(r" [Tt] main\.[a-z]+$", line)]
    # In the order in which main calls them, which is that of the source.
    result = subprocess.run([uprobectl, "list-args", "--json", program, *symbols], capture_output=True,
                            text=True, check=False)
    records = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.returncode == 0, result.stderr
    return [record for record in records if record["type"] == "arguments" and (record["source_line"] or name == "main")
            and record["source_file"].endswith((f"{name}.c", f"{name}.cpp", f"{name}.hpp", "values.rs", "values.go", f"{name}/use.cpp"))]


def last_name(function):
    name = re.sub(r"\.(constprop|isra|part)\..*", "", function["function"].partition("<")[0])
    return re.split(r"::|\.", name)[-1]


def functions_of(uprobectl, name, program):
    called = CALLED[name]
    functions = [f for f in describe(uprobectl, name, program) if last_name(f) in called]
    functions.sort(key=lambda f: called.index(last_name(f)))
    for function in functions:  # gdb does not tell the parameters of a pack apart
        names = [parameter["name"] for parameter in function["parameters"]]
        function["parameters"] = [parameter for parameter in function["parameters"] if names.count(parameter["name"]) == 1]
    return functions


def compare(machine, name, program, options, folder, functions, events):
    plan, rows = folder / "plan.json", folder / "rows.json"
    rows.unlink(missing_ok=True)
    start, emulator = machine.debug(program, folder)
    plan.write_text(json.dumps({
        "start": start, "arm64": machine.name == "arm64", "prologue": "-O0" in options,
        "language": "c" if name in LANGUAGES else "auto", "program_language": LANGUAGES.get(name), "functions": [
        {"name": f["function"], "symbol": f["symbol"], "address": f["address"], "parameters": f["parameters"],
         "result": None if f["function"].endswith(GDB_FAILS) else f["result"],
         "captured": None if events is None else captured_values(f, events)}
        for f in functions]}))
    setup = f"import sys; sys.path.insert(0, {str(HERE)!r}); PLAN, ROWS = {str(plan)!r}, {str(rows)!r}"
    try:
        run = subprocess.run([*machine.gdb, "-batch", "-nx", "-ex", f"python {setup}",
                              "-x", HERE / "debug_info_in_gdb.py", program], capture_output=True, text=True,
                             timeout=120, check=False)
    finally:
        if emulator is not None:
            emulator.kill()
            emulator.wait()
    assert rows.exists(), run.stdout + run.stderr
    return json.loads(rows.read_text())


def captured_values(function, events):
    """What the first event of the function has, by the names of parameters; the result's is '='."""
    event = next((e for e in events if e["symbol"] == function["symbol"]), None)
    if event is None:
        return {}
    values = {argument["name"]: argument for argument in event["arguments"]}
    values["="] = {"value": event["return_value"], "error": event.get("return_error")}
    if event["left_by"] == "tail_call":
        values["="] = {"value": None, "error": "left by a tail call"}
    return values


class Here:
    """Runs `attach` on this machine."""

    def __init__(self, uprobectl):
        self.uprobectl = uprobectl

    def capture(self, programs, _):
        """For each (program, functions) the events of one run of it, or what went wrong."""
        for program, functions in programs:
            run = subprocess.run(attach_command(self.uprobectl, program, functions), capture_output=True, text=True,
                                 timeout=90, check=False)
            yield events_of(run.stdout) if run.returncode == 0 else run.stderr


class Guest:
    """Runs `attach` in an arm64 guest."""
    SCRIPT = """mkdir -p {folder} && mount -o bind /programs {folder} || exit
for number in {numbers}; do
  sh /runs/$number >/tmp/out 2>/tmp/err
  echo "run $number $? $(gzip -c /tmp/out | base64 -w 0) $(gzip -c /tmp/err | base64 -w 0)"
done
"""

    def __init__(self, options):
        self.program = options.bin
        self.kernel = fetch_kernel("arm64", options.guest, options.cache)
        self.busybox = fetch_busybox("arm64", options.cache)

    def capture(self, programs, folder):
        runs = folder / "runs"
        runs.mkdir()
        for number, (program, functions) in enumerate(programs):
            command = attach_command("/usr/bin/uprobectl", program, functions)
            (runs / str(number)).write_text(f"cd {folder} && exec {shlex.join(map(str, command))}\n")
        (runs / "all").write_text(self.SCRIPT.format(folder=folder, numbers=" ".join(map(str, range(len(programs))))))
        # Split units lie beside the programs.
        files = [(path, f"/programs/{path.name}") for path in folder.iterdir()
                 if path.suffix == ".dwo" or path in [program for program, _ in programs]]
        output = io.BytesIO()
        run_guest(GuestRun(arch="arm64", kernel=self.kernel, busybox=self.busybox, command=["sh", "/runs/all"],
                           files=[(self.program, "/usr/bin/uprobectl"), *files,
                                  *((path, f"/runs/{path.name}") for path in runs.iterdir())],
                           timeout=120 + 30 * len(programs), memory=1024), output)
        found = {}
        for line in output.getvalue().decode(errors="replace").splitlines():
            if match := re.fullmatch(r"run (\d+) (\d+) (\S+) (\S+)", line):
                out, err = (gzip.decompress(base64.b64decode(text)).decode() for text in match.group(3, 4))
                found[int(match[1])] = events_of(out) if match[2] == "0" else err
        return [found.get(number, "it has not run") for number in range(len(programs))]


def attach_command(uprobectl, program, functions):
    # With the most that can be shown: more is compared.
    return [uprobectl, "attach", "--json", "--latency", "--args-depth", "5", "-d", "60", program,
            *(function["symbol"] for function in functions), "--", program]


def events_of(output):
    records = [json.loads(line) for line in output.splitlines()]
    return [record for record in records if record["type"] == "event"]


# gdb 13 fails with an internal error when these return (amd64_return_value).
GDB_FAILS = ("return_long_double_or_int",)

# Its location list for arm64 begins after the prologue (rustc 1.63, opt-level=0).
LATE_LIST = ("values::shout", "text")

# The functions in the order in which main calls them.
CALLED = {
    "shop": ["add", "largest", "scale", "integers", "many", "points", "pairs", "floats", "mixed", "large",
             "make_large", "by_value", "join", "enums", "pointers", "owners", "wide", "unused", "grids", "shared"],
    "passing": ["return_trivial", "return_defaulted", "return_defaulted_outside", "return_own_destructor",
                "return_own_copy", "return_own_move", "return_deleted_copy", "return_immovable",
                "return_copy_template", "return_generic", "return_virtual_function", "return_virtual_base",
                "return_base_with_destructor", "return_member_with_destructor",
                "return_array_with_destructors", "return_nested_array", "return_aligned", "return_wide",
                "return_long_double", "return_long_double_and_more", "return_long_double_or_text",
                "return_long_double_or_float", "return_long_double_or_int", "return_long_doubles",
                "take_classes", "take_parts", "take_aligned", "take_stack", "take_packed",
                "take_long_doubles", "take_floats", "return_complex", "take_complex", "take_vectors", "take_quad",
                "take_otherwise", "take_pack"],
    "parts": ["take_pieces", "take_owner", "take_references", "return_pair", "return_piece", "take_bases", "take_nested",
              "take_boxes"],
    "clones": ["joined", "split"],
    "orders": ["orders_take"],
    "values": ["numbers", "texts", "slices", "vectors", "options", "shapes", "move_by", "first_word", "count_to",
               "shout", "spilled"],
    "main": ["numbers", "texts", "slices", "pointers", "failures", "total"],
}
# For these programs gdb evaluates expressions of C.
LANGUAGES = {"values": "rust", "main": "go"}
# The fewest parameters and results that must be compared.
FEWEST = {("clones", "clang-19"): (1, 0), "shop": (40, 10), "passing": (40, 10), "parts": (11, 8), "clones": (4, 0), "orders": (3, 1), "values": (12, 3), "main": (10, 0)}


# Where AAPCS64 puts the parameters of some functions of passing.cpp: the code of g++ 12 and clang 19
# at -O2 (objdump) reads them there. None: in vector registers.
ARM64 = {
    "take_aligned": ["x0", "x1:8, x2:8", "x3", "x4:8, x5:8", "x6", "[sp]"],
    "take_stack": ["x0", "x1", "x2", "x3", "x4", "x5", "x6", "[sp]", "[sp+16]", "[[sp+24]]", "[sp+32]",
                   "[sp+48]", "[sp+64]"],
    "take_long_doubles": ["x0", None, "x2:8, x3:8", "x4:8, x5:8", "x6"],
    "take_floats": [None, None, "x0", "x1:8, x2:8", "x3"],
    "take_complex": [None, "x0", None, None, "x1"],
    "take_vectors": ["x0", None, None, "x1", None, "x2:8, x3:8", "x4"],
    "return_immovable": ["x0"],
}


def check_arm64(report, uprobectl, folder, sources):
    title = "passing: aarch64-linux-gnu-g++ -O0"
    if not shutil.which("aarch64-linux-gnu-g++"):
        report.skip(title, "aarch64-linux-gnu-g++ is not installed")
        return
    library = folder / "libpassing.so"
    subprocess.run(["aarch64-linux-gnu-g++", "-std=c++20", "-w", "-Wno-psabi", "-O0", "-g", "-fPIC", "-shared",
                    "-o", library, sources / "passing.cpp"], check=True)
    found = {f["function"].split("::")[-1]: [parameter["location"] for parameter in f["parameters"]]
             for f in describe(uprobectl, "passing", library)}
    report.check(title, [f"{name}: {found.get(name)}, expected {expected}" for name, expected in ARM64.items()
                         if found.get(name) != expected])


def judge_captured(row):
    """The same of a value that attach has captured. A value that `list-args` locates must have been read,
    unless its type is not supported."""
    verdict, detail = row["captured"]["verdict"], row["captured"]["detail"]
    located = judge(row)
    if (row["function"], row["parameter"]) == LATE_LIST and located == "optimized out":
        return located if detail.startswith("null (optimized out)") else "wrong"
    complete = located == "equal" and all(a is not None for a, b in zip(row["ours"], row["gdb"]) if b is not None)
    if verdict in ("not readable", "optimized out") and complete and not detail.endswith("its type is not supported"):
        return "wrong"
    return verdict


def judge(row):
    """equal, optimized out, not readable (said so), or wrong."""
    ours, gdb = row["ours"], row["gdb"]
    if ours is None:
        if "optimized out" in row["why"] and (gdb is None or (row["function"], row["parameter"]) == LATE_LIST):
            return "optimized out"
        if gdb is None and row["why"] == "only known to the caller":
            return "optimized out"
        if "convention is not known" in row["why"] or row["why"] == "the compiler has changed the function":
            return "no convention"
        # clang has changed the convention of this function, which may have no frame.
        if "only after the function's first instructions" in row["why"] and row["function"] == "joined":
            return "no convention"
        return "not readable" if "not readable" in row["why"] else "wrong"
    if gdb is None:
        if "optimized out:" in row["location"] and not row["problem"]:
            return "optimized out"  # gdb does not tell which part of it
        return "unknown to gdb" if row["problem"] else "wrong"
    ours += [None] * (len(gdb) - len(ours))  # the padding at the end may not be passed
    if ours and all(byte is None for byte in ours) and "not readable" in (row["location"] or ""):
        return "not readable"
    pairs = [(a, b) for a, b in zip(ours, gdb) if a is not None and b is not None]
    known = sum(byte is not None for byte in gdb)
    if re.search(r"not readable|optimized out:", row["location"]):  # gdb shows 0 for a missing last piece
        known = len(pairs)
    return "equal" if pairs and len(pairs) == known and all(a == b for a, b in pairs) else "wrong"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("uprobectl", type=Path)
    parser.add_argument("sources", type=Path)
    parser.add_argument("--full", action="store_true", help="all configurations")
    parser.add_argument("--arm64", metavar="RUST-LIBRARY")
    parser.add_argument("--captured", action="store_true", help="also what attach captures")
    parser.add_argument("--fixtures", type=Path, help="of the program that is tried first on this machine")
    parser.add_argument("--guest", metavar="SERIES", help="Linux of the guest that attach runs in")
    parser.add_argument("--bin", type=Path, help="the program for the guest")
    parser.add_argument("--cache", type=Path)
    options = parser.parse_args()
    uprobectl, sources = options.uprobectl.resolve(), options.sources.resolve()
    machine, quick = Machine(), QUICK
    if options.arm64 is not None:
        machine, quick = Arm64(options.arm64), QUICK_ARM64
    report = tap.Tap()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if machine.name != "arm64":
            check_arm64(report, uprobectl, folder, sources)
        programs = []
        for name, compiler, flags, version in FULL if options.full else quick:
            title = f"{machine.name}, {name}: {compiler} {flags}, DWARF {version}"
            if missing := [tool for tool in machine.needed(compiler) if not shutil.which(tool)]:
                report.skip(title, f"{missing[0]} is not installed")
                continue
            if compiler == "rustc" and machine.name == "arm64" and not machine.rust_library:
                report.skip(title, "no Rust library for arm64")
                continue
            program = compile_program(machine, folder, name, compiler, flags, version, sources)
            programs.append((title, name, compiler, flags, program, functions_of(uprobectl, name, program)))
        captured = [None] * len(programs)
        if options.captured:
            captured = capture(report, options, [(program, functions) for *_, program, functions in programs], folder)
        for (title, name, compiler, flags, program, functions), events in zip(programs, captured):
            failed = isinstance(events, str)
            fewest = FEWEST.get((name, compiler), FEWEST[name])
            rows = compare(machine, name, program, flags, folder, functions, None if failed else events)
            check(report, title, functions, rows, judge, len(CALLED[name]), fewest)
            if failed:
                report.fail(f"{title}, captured", events)
            elif events is not None:
                check(report, f"{title}, captured", functions, rows, judge_captured, len(CALLED[name]), fewest)
        if options.captured and not options.guest and not why_not_here(options):
            check_many(report, uprobectl, folder)
    report.done()


def check_many(report, uprobectl, folder):
    """With more than 64 functions structures are not read, and each says why."""
    source, program = folder / "many.c", folder / "many"
    source.write_text("struct order { long id, price, count; };\n" + "".join(
        f"__attribute__((noinline)) long take_{i}(struct order o, int n, const char *t) {{ return o.id + n + *t; }}\n"
        for i in range(65)) + "int main(void) { struct order o = {1, 2, 3}; return (" + " + ".join(
            f'take_{i}(o, {i}, "box")' for i in range(65)) + ") == 0; }\n")
    subprocess.run(["gcc", "-g", "-O0", "-w", source, "-o", program], check=True)
    for count in (64, 65):
        functions = [{"symbol": f"take_{i}"} for i in range(count)]
        run = subprocess.run([uprobectl, "attach", "--json", program, *(f["symbol"] for f in functions), "--", program],
                             capture_output=True, text=True, timeout=90, check=False)
        order = {"value": {"id": 1, "price": 2, "count": 3}, "error": None} if count == 64 else \
            {"value": None, "error": "not read with more than 64 functions"}
        expected = [[order, {"value": i, "error": None}, {"value": "box", "error": None}] for i in range(count)]
        found = [[{key: argument[key] for key in ("value", "error")} for argument in event["arguments"]]
                 for event in events_of(run.stdout)]
        report.check(f"structures of {count} functions", [f"{found} {run.stderr}"] if found != expected else [])


def capture(report, options, programs, folder):
    """For each program the events of its run, or what went wrong; None if nothing can be run."""
    nothing = [None] * len(programs)
    if options.guest:
        try:
            runner = Guest(options)
        except GuestError as error:
            report.skip("captured values", f"no Linux {options.guest} for arm64: {error}".splitlines()[0])
            return nothing
    elif reason := why_not_here(options):
        report.skip("captured values", reason)
        return nothing
    else:
        runner = Here(options.uprobectl.resolve())
    try:
        return list(runner.capture(programs, folder))
    except GuestError as error:
        report.fail("captured values", error)
        return nothing


def why_not_here(options):
    if os.geteuid() != 0:
        return "only root attaches"
    trial = argparse.Namespace(bin=options.uprobectl.resolve(), fixtures=options.fixtures.resolve())
    reason = run_native_suite.why_unusable(trial)
    return reason and f"machine uprobes unusable: {reason}"


def check(report, title, functions, rows, judge_row, called, fewest):
    problems = [f"only {len(functions)} functions"] if len(functions) != called else []
    parameters, results = (Counter(judge_row(row) for row in rows if (row["parameter"] == "=") == is_result)
                           for is_result in (False, True))
    for row in rows:
        if judge_row(row) == "wrong":
            why = f"{row['ours']}, gdb: {row['gdb']} {row['problem']}" if judge_row is judge else row["captured"]["detail"]
            problems.append(f"{row['function']} {row['parameter']}: {row['location'] or row['why']} -> {why}")
    if parameters["equal"] < fewest[0] or results["equal"] < fewest[1]:
        problems.append("too few were compared")
    report.check(f"{title}: parameters {dict(sorted(parameters.items()))}, "
                 f"results {dict(sorted(results.items()))}", problems)


main()
