# SPDX-License-Identifier: Apache-2.0
"""Runs in gdb, for debug_info_agreement.py, which sets PLAN and ROWS. For each function of the plan: stops at
the first instruction and reads the locations that `list-args` has, then, at -O0 after the prologue, compares
with the bytes of gdb's value. If the plan has values that `attach` has captured in another run of the
program, they are compared with gdb's, too (captured_in_gdb.py)."""

import json
import re

import captured_in_gdb
import gdb

with open(PLAN) as plan_file:
    plan = json.load(plan_file)
rows = []
gdb.execute("set pagination off")
gdb.execute("set print thread-events off")
# No value needs it, and gdb 13 cannot restore the registers of processors with AMX.
gdb.execute("set may-call-functions off")
gdb.execute("set language " + plan["language"])
gdb.execute("handle SIGURG nostop noprint pass")  # Go's runtime interrupts its threads

def register(name):
    return int(gdb.parse_and_eval("(unsigned long)$" + name))

def number(text):
    """The value of NAME+N, [EXPRESSION]+N or a constant, each with >>BITS and &MASK after it."""
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

def result_row(function, frame_of_function, result_memory):
    """Runs to the return of the function. `result_memory`: x8 at the function's first instruction, which
    no register has at the return."""
    finish = gdb.FinishBreakpoint(frame_of_function, internal=True)
    gdb.execute("continue")
    problem, expected, value = "", None, None
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
    row = {"function": function["name"], "parameter": "=", "location": "x8 at entry" if in_memory else result["location"],
           "why": result["problem"], "ours": ours, "gdb": expected, "problem": problem}
    if function["captured"] is not None:
        row["captured"] = captured_result(function, value, result_memory if in_memory else None)
    return row

def captured_result(function, value, result_memory):
    if result_memory is not None:  # where the caller wants it, which gdb 13 does not know at the return
        pointer = (value.type if value is not None else function["type"]).pointer()
        value = gdb.Value(result_memory).cast(pointer).dereference()
    if plan["arm64"] and function["name"].endswith("return_deleted_copy"):
        value = gdb.Value((17).to_bytes(8, "little"), function["type"])  # as in result_row
    if not plan["arm64"] and value is not None and value.type.code == gdb.TYPE_CODE_INT and value.type.sizeof > 8:
        value = None  # gdb 13 takes 0 for it
    return compare_captured(function, "=", value)

def compare_captured(function, name, value):
    return captured_in_gdb.compare(function["captured"].get(name), value, content_of, program)

content_of, frame, memory = captured_in_gdb.content_of, captured_in_gdb.frame, captured_in_gdb.memory
is_reference = captured_in_gdb.is_reference
program = {"language": plan["program_language"], "image": captured_in_gdb.image_of_program()}
for function in plan["functions"]:
    gdb.Breakpoint("*" + function["address"], temporary=True)
for command in plan["start"]:
    gdb.execute(command)
for _ in plan["functions"]:
    pc = register("pc")
    function = next(f for f in plan["functions"] if int(f["address"], 16) == pc)
    ours = []
    function["type"] = frame().function().type.target()
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
        if function["captured"] is not None:
            rows[-1]["captured"] = compare_captured(function, parameter["name"], frame().read_var(parameter["name"]))
    if function["result"] is not None:
        rows.append(result_row(function, frame(), result_memory))
    if function is not plan["functions"][-1]:
        gdb.execute("continue")
with open(ROWS, "w") as rows_file:
    json.dump(rows, rows_file)
