#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the locations of `uprobectl list-args` with gdb, parameter by parameter, in shop.cpp and, at
-O0, where calling conventions decide, in passing.cpp: where uprobectl says
that a value is at a function's first instruction, the bytes must be those that gdb shows for the
parameter; where gdb says that it was optimized out, uprobectl must say so, too. At -O0 gdb reads the
parameters behind the prologue of the same call. Results are compared at the return with what gdb's
`finish` shows. With --arm64 the programs are those of cross compilers, and gdb-multiarch stops them in
QEMU's user emulation.
Usage: debug_info_agreement.py UPROBECTL SOURCE-FOLDER [--full] [--arm64 [RUST-LIBRARY]]"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import tap  # noqa: E402

# Debian's, whose standard library is known, rather than another one in PATH.
RUSTC = "/usr/bin/rustc" if os.path.exists("/usr/bin/rustc") else "rustc"
# Programs, compilers, options, DWARF versions.
QUICK = [("shop", "g++", "-O0", 5), ("shop", "g++", "-O2 -gz=zlib", 4),
         ("shop", "clang++-19", "-O0", 4), ("shop", "clang++-19", "-O2 -gz=zlib", 5),
         ("passing", "g++", "-O0 -fdebug-types-section", 4), ("passing", "g++", "-O0", 5),
         ("passing", "clang++-19", "-O0 -fdebug-types-section -gsplit-dwarf", 5),
         ("clones", "gcc", "-O2 -gsplit-dwarf", 5),
         ("values", "rustc", "-O0", 4), ("values", "rustc", "-O2", 4), ("main", "go", "", 4)]
FULL = [("shop", compiler, level, version) for compiler in ("g++", "clang++-19")
        for level in ("-O0", "-O1", "-Og", "-O2") for version in (4, 5)]
FULL += [("passing", compiler, "-O0" + types, version) for compiler in ("g++", "clang++-19")
         for types in ("", " -fdebug-types-section", " -fdebug-types-section -gsplit-dwarf")
         for version in (4, 5)
         # gdb 13 does not read what g++ 12 writes there.
         if (compiler, version) != ("g++", 5) or "split" not in types]

FULL += [("clones", "gcc", "-O2" + split, version) for split in ("", " -gsplit-dwarf") for version in (4, 5)]
FULL += [("values", "rustc", level, 4) for level in ("-O0", "-O1", "-O2", "-Os")]
FULL += [("main", "go", "", 4)]
# Each compiler once; the native plan has what else differs.
QUICK_ARM64 = [("shop", "g++", "-O2", 5), ("shop", "clang++-19", "-O0", 4), ("passing", "g++", "-O0", 4),
               ("passing", "clang++-19", "-O0", 5), ("values", "rustc", "-O2", 4), ("main", "go", "", 4)]


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

# Runs in gdb. For each function: stops at the first instruction, reads what uprobectl says, then at -O0
# behind the prologue, and compares with the bytes of gdb's value.
GDB_SCRIPT = r'''
import gdb
import json
import re
import struct

plan = json.load(open(PLAN))
rows = []
gdb.execute("set pagination off")
gdb.execute("set print thread-events off")
gdb.execute("set language " + plan["language"])
gdb.execute("handle SIGURG nostop noprint pass")  # Go's runtime interrupts its threads

def register(name):
    return int(gdb.parse_and_eval("(unsigned long)$" + name))

def memory(address, size):
    return bytes(gdb.selected_inferior().read_memory(address, size))

def number(text):
    """The value of NAME+N, [EXPRESSION]+N or a constant, each with >>BITS and &MASK behind it."""
    bits = re.fullmatch(r"(.*?)(?:>>(\d+))?(?:&(0x[0-9a-f]+))?", text)
    if bits[2] or bits[3]:
        return number(bits[1]) >> int(bits[2] or 0) & int(bits[3] or "0xffffffffffffffff", 16)
    match = re.fullmatch(r"\[(.*)\]([+-]\d+)?", text)
    if match:
        word = int.from_bytes(memory(number(match[1]), 8), "little")
        return (word + int(match[2] or 0)) & (1 << 64) - 1
    match = re.fullmatch(r"(-?\d+)|([a-z]\w*)([+-]\d+)?", text)
    if match[1]:
        return int(match[1]) & (1 << 64) - 1
    return (register(match[2]) + int(match[3] or 0)) & (1 << 64) - 1

def read(location, size):
    """The bytes at a location of list-args; None for the parts that it cannot read."""
    content = []
    for piece in location.split(", "):
        text, _, length = piece.rpartition(":") if re.search(r":\d+$", piece) else (piece, "", "")
        length = int(length) if length else size
        if re.fullmatch(r"\[.*\]", text):
            content += list(memory(number(text[1:-1]), length))
        elif re.fullmatch(r"(-?\d+|[a-z]\w*([+-]\d+)?|\[.*\][+-]\d+)(>>\d+)?(&\w+)?", text):
            content += list(number(text).to_bytes(8, "little")[:length])
        else:
            content += [None] * length
    return content[:size]

def shown(name):
    """The bytes of gdb's value; None if it was optimized out."""
    value = frame().read_var(name)
    if is_reference(value.type):
        value = value.referenced_value().address
    if value.is_optimized_out:
        return None
    used = used_bytes(value.type)
    return [byte if used[i] else None for i, byte in enumerate(content_of(value))]

def used_bytes(kind):
    """For each byte of the type whether it is not padding."""
    kind = kind.strip_typedefs()
    if kind.code not in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION):
        return [True] * kind.sizeof
    used = [False] * kind.sizeof
    for field in kind.fields():
        if getattr(field, "bitpos", None) is None:
            continue
        at = field.bitpos // 8
        inside = [True] * ((field.bitpos % 8 + field.bitsize + 7) // 8) if field.bitsize else used_bytes(field.type)
        for i, byte in enumerate(inside):
            used[at + i] = used[at + i] or byte
    return used

def frame():
    """The frame of the function itself, also where it begins with an inlined one."""
    found = gdb.newest_frame()
    while found.type() == gdb.INLINE_FRAME:
        found = found.older()
    found.select()
    return found

def result_row(function, frame_of_function, result_memory):
    """Runs to the return of the function. `result_memory`: x8 at the function's first instruction, which
    no register has at the return."""
    finish = gdb.FinishBreakpoint(frame_of_function, internal=True)
    gdb.execute("continue")
    problem, expected = "", None
    result = function["result"]
    in_memory = plan["arm64"] and result["problem"] == "returned through memory"
    ours = [] if result["location"] or in_memory else None
    try:
        value = finish.return_value
        if value is None:
            problem = "gdb does not know the convention"
        else:
            used = used_bytes(value.type)
            expected = [byte if used[i] else None for i, byte in enumerate(content_of(value))]
            if in_memory:
                ours = list(memory(result_memory, int(value.type.sizeof)))
            elif result["location"]:
                ours = read(result["location"], int(value.type.sizeof))
            if in_memory and register("x8") != result_memory:
                raise gdb.error("gdb 13 takes what x8 is at the return for the address")
            if plan["arm64"] and function["name"].endswith("return_deleted_copy"):
                # gdb 13 expects it in memory; objdump of g++ 12's and clang 19's code has it in x0.
                expected = list((17).to_bytes(8, "little"))
    except (gdb.error, OverflowError) as error:
        expected, problem = None, str(error)
    return {"function": function["name"], "parameter": "=",
            "location": "x8 at entry" if in_memory else result["location"], "why": result["problem"], "ours": ours, "gdb": expected, "problem": problem}

def is_reference(kind):
    return kind.strip_typedefs().code in (gdb.TYPE_CODE_REF, gdb.TYPE_CODE_RVALUE_REF)

def content_of(value):
    kind = value.type.strip_typedefs()
    if value.address is not None:
        return memory(int(value.address), kind.sizeof)
    if kind.code == gdb.TYPE_CODE_FLT:
        if kind.sizeof > 8:
            raise gdb.error("a long double in registers")
        return struct.pack("<f" if kind.sizeof == 4 else "<d", float(value))
    if kind.code == gdb.TYPE_CODE_ARRAY:
        first, last = kind.range()
        return b"".join(content_of(value[i]) for i in range(first, last + 1))
    if kind.code not in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION):
        mask = (1 << 8 * kind.sizeof) - 1
        word = gdb.lookup_type("unsigned long" if kind.sizeof <= 8 else "unsigned __int128")
        return (int(value.cast(word)) & mask).to_bytes(kind.sizeof, "little")
    value.fetch_lazy()  # gdb 13 fails with an internal error for members of a lazy value
    content = bytearray(kind.sizeof)
    for field in kind.fields():
        if getattr(field, "bitpos", None) is None:  # static, or a virtual base
            continue
        if field.bitsize:
            raise gdb.error("a bit-field in a register")
        at = field.bitpos // 8
        content[at:at + field.type.sizeof] = content_of(value[field])
    return bytes(content)

for function in plan["functions"]:
    gdb.Breakpoint("*" + function["address"], temporary=True)
for command in plan["start"]:
    gdb.execute(command)
for _ in plan["functions"]:
    pc = register("pc")
    function = next(f for f in plan["functions"] if int(f["address"], 16) == pc)
    ours = []
    result_memory = register("x8") if plan["arm64"] else 0
    for parameter in function["parameters"]:
        kind = frame().read_var(parameter["name"]).type if parameter["name"] else None
        size = 8 if kind is None or is_reference(kind) else int(kind.sizeof)
        try:
            ours.append(read(parameter["location"], size) if parameter["location"] else None)
        except gdb.MemoryError:
            ours.append([])
    if plan["prologue"]:
        gdb.Breakpoint(function["symbol"], temporary=True)
        gdb.execute("continue")
    for parameter, bytes_read in zip(function["parameters"], ours):
        if not parameter["name"]:
            continue
        try:
            expected = shown(parameter["name"])
            problem = ""
        except (gdb.error, OverflowError) as error:
            expected, problem = None, str(error)
        rows.append({"function": function["name"], "parameter": parameter["name"],
                     "location": parameter["location"], "why": parameter["problem"],
                     "ours": bytes_read, "gdb": expected, "problem": problem})
    if function["result"] is not None:
        rows.append(result_row(function, frame(), result_memory))
    if function is not plan["functions"][-1]:
        gdb.execute("continue")
json.dump(rows, open(ROWS, "w"))
'''


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
    source, standard = (f"{name}.c", "-std=gnu17") if compiler == "gcc" else (f"{name}.cpp", "-std=c++20")
    subprocess.run([*machine.cxx(compiler), standard, "-w", "-Wno-psabi", *options.split(), "-g", f"-gdwarf-{version}", "-fno-pie",
                    "-no-pie", "-o", program, sources / source], check=True, cwd=folder)
    return program


def describe(uprobectl, name, program):
    names = subprocess.run(["nm", "--defined-only", program], check=True, capture_output=True,
                           text=True).stdout.split("\n")
    symbols = [line.split()[2] for line in names
               if re.search(rf" [TtW] _ZN{len(name)}{name}(?!.*(C[12]|D[012])E)", line) and "." not in line.split()[2]
               or name == "clones" and re.search(r" t (joined|split)\.", line)
               or name == "main" and re.search(r" [Tt] main\.[a-z]+$", line)]
    # In the order in which main calls them, which is that of the source.
    result = subprocess.run([uprobectl, "list-args", "--json", program, *symbols], capture_output=True,
                            text=True, check=False)
    records = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.returncode == 0, result.stderr
    return [record for record in records if record["type"] == "arguments" and (record["source_line"] or name == "main")
            and record["source_file"].endswith((f"{name}.c", f"{name}.cpp", f"{name}.hpp", "values.rs", "values.go"))]


def last_name(function):
    name = re.sub(r"\.(constprop|isra|part)\..*", "", function["function"].partition("<")[0])
    return re.split(r"::|\.", name)[-1]


def compare(machine, uprobectl, name, program, options, folder):
    functions = describe(uprobectl, name, program)
    called = CALLED[name]
    functions = [f for f in functions if last_name(f) in called]
    functions.sort(key=lambda f: called.index(last_name(f)))
    for function in functions:  # gdb does not tell the parameters of a pack apart
        names = [parameter["name"] for parameter in function["parameters"]]
        function["parameters"] = [parameter for parameter in function["parameters"] if names.count(parameter["name"]) == 1]
    plan, rows, script = folder / "plan.json", folder / "rows.json", folder / "script.py"
    rows.unlink(missing_ok=True)
    start, emulator = machine.debug(program, folder)
    plan.write_text(json.dumps({
        "start": start, "arm64": machine.name == "arm64", "prologue": "-O0" in options,
        "language": LANGUAGES.get(name, "auto"), "functions": [
        {"name": f["function"], "symbol": f["symbol"], "address": f["address"], "parameters": f["parameters"],
         "result": None if f["function"].endswith(GDB_FAILS) else f["result"]}
        for f in functions]}))
    script.write_text(f"PLAN, ROWS = {str(plan)!r}, {str(rows)!r}\n" + GDB_SCRIPT)
    try:
        run = subprocess.run([*machine.gdb, "-batch", "-nx", "-x", script, program], capture_output=True, text=True,
                             timeout=120, check=False)
    finally:
        if emulator is not None:
            emulator.kill()
            emulator.wait()
    assert rows.exists(), run.stdout + run.stderr
    return functions, json.loads(rows.read_text())


# gdb 13 fails with an internal error when these return (amd64_return_value).
GDB_FAILS = ("return_long_double_or_int",)

# Its location list for arm64 begins behind the prologue (rustc 1.63, opt-level=0).
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
                "take_long_doubles", "take_floats", "take_pack"],
    "clones": ["joined", "split"],
    "values": ["numbers", "texts", "slices", "vectors", "options", "shapes", "move_by", "first_word", "count_to",
               "shout"],
    "main": ["numbers", "texts", "slices", "pointers", "failures", "total"],
}
# The language whose expressions gdb evaluates, other than the program's.
LANGUAGES = {"values": "c", "main": "c"}
# The fewest parameters and results that must be compared.
FEWEST = {"shop": (40, 10), "passing": (40, 10), "clones": (4, 0), "values": (12, 3), "main": (10, 0)}


# Where AAPCS64 puts the parameters of some functions of passing.cpp: the code of g++ 12 and clang 19
# at -O2 (objdump) reads them there. None: in vector registers.
ARM64 = {
    "take_aligned": ["x0", "x1:8, x2:8", "x3", "x4:8, x5:8", "x6", "[sp]"],
    "take_stack": ["x0", "x1", "x2", "x3", "x4", "x5", "x6", "[sp]", "[sp+16]", "[[sp+24]]", "[sp+32]",
                   "[sp+48]", "[sp+64]"],
    "take_long_doubles": ["x0", None, "x2:8, x3:8", "x4:8, x5:8", "x6"],
    "take_floats": [None, None, "x0", "x1:8, x2:8", "x3"],
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
    uprobectl, sources = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    machine, quick = Machine(), QUICK
    if "--arm64" in sys.argv:
        machine, quick = Arm64(sys.argv[sys.argv.index("--arm64") + 1:][0]), QUICK_ARM64
    plan = FULL if "--full" in sys.argv else quick
    report = tap.Tap()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        if machine.name != "arm64":
            check_arm64(report, uprobectl, folder, sources)
        for name, compiler, options, version in plan:
            title = f"{machine.name}, {name}: {compiler} {options}, DWARF {version}"
            if missing := [tool for tool in machine.needed(compiler) if not shutil.which(tool)]:
                report.skip(title, f"{missing[0]} is not installed")
                continue
            if compiler == "rustc" and machine.name == "arm64" and not machine.rust_library:
                report.skip(title, "no Rust library for arm64")
                continue
            program = compile_program(machine, folder, name, compiler, options, version, sources)
            functions, rows = compare(machine, uprobectl, name, program, options, folder)
            problems = [f"only {len(functions)} functions"] if len(functions) != len(CALLED[name]) else []
            parameters, results = (Counter(judge(row) for row in rows if (row["parameter"] == "=") == is_result)
                                   for is_result in (False, True))
            problems += [f"{row['function']} {row['parameter']}: {row['location'] or row['why']} -> "
                         f"{row['ours']}, gdb: {row['gdb']} {row['problem']}"
                         for row in rows if judge(row) == "wrong"]
            if parameters["equal"] < FEWEST[name][0] or results["equal"] < FEWEST[name][1]:
                problems.append("too few were compared")
            report.check(f"{title}: parameters {dict(sorted(parameters.items()))}, "
                         f"results {dict(sorted(results.items()))}", problems)
    report.done()


main()
