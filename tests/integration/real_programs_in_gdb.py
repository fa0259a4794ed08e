# SPDX-License-Identifier: Apache-2.0
"""Runs in gdb, for real_programs.py, which sets PLAN and RESULTS. Lists the functions at the plan's addresses
with their parameters, and the rows of the line tables. With the values that `attach` has captured, it runs the
program and compares them with gdb's at the same calls."""

import json
import re
from collections import Counter

import captured_in_gdb
import gdb

with open(PLAN) as plan_file:
    plan = json.load(plan_file)
gdb.execute("set pagination off")
gdb.execute("set width 0")
gdb.execute("set confirm off")
gdb.execute("set language c")
gdb.execute("handle SIGURG nostop noprint pass")  # Go's runtime interrupts its threads
gdb.execute("set print thread-events off")


def function_block(address):
    """The block of the function whose code has the address; of what is inlined there, the outermost."""
    block, found = gdb.block_for_pc(address), None
    while block is not None and not block.is_global and not block.is_static:
        if block.function is not None:
            found = block
        block = block.superblock
    return found


def inlined_functions(address):
    block, names = gdb.block_for_pc(address), []
    while block is not None and not block.is_global and not block.is_static:
        if block.function is not None:
            names.append(block.function.name)
        block = block.superblock
    return names[:-1]


def parameters_of(block):
    return [symbol for symbol in block if symbol.is_argument]


def describe(address):
    block = function_block(address)
    if block is None:
        return None
    symbol = block.function
    return {"name": symbol.linkage_name, "file": symbol.symtab.fullname(), "line": symbol.line,
            "parameters": [parameter.name for parameter in parameters_of(block)]}


def line_rows():
    """[file, line, address, entry of the function, whether a statement begins] of each row. gdb leaves out those
    that follow one of the same line."""
    rows, file = [], None
    for text in gdb.execute("maint info line-table", to_string=True).splitlines():
        if match := re.match(r"symtab: (.*) \(\(struct symtab \*\)", text):
            file = match[1] if re.search(plan["files"], match[1]) else None
        elif file is not None and (match := re.match(r"\d+\s+(\d+)\s+(0x[0-9a-f]+)\s+(?:0x[0-9a-f]+\s+)?(Y?)", text)):
            address = int(match[2], 16)
            block = function_block(address)
            rows.append([file, int(match[1]), address, block.start if block is not None else None, match[3] == "Y"])
    return rows


class Entry(gdb.Breakpoint):
    """The first instruction of a function. Where the program is not optimized, parameters are read after the
    prologue of the same call, which a loop may reach again."""

    def __init__(self, address, base, captured):
        super().__init__(f"*{base + address:#x}", internal=True)
        self.block = function_block(base + address)
        self.captured = captured
        self.calls = 0
        self.waits = False
        self.is_done = False

    def stop(self):
        self.waits = True
        if not plan["prologue"]:
            self.read()
        return self.is_done

    def read(self):
        if not self.waits or self.calls == len(self.captured):
            return
        self.waits = False
        try:
            compare_call(self.block, self.captured[self.calls])
        except gdb.error as error:
            results["values"].append([self.block.function.name, "", "unknown to gdb", str(error)])
        self.calls += 1
        self.is_done = self.calls == len(self.captured)


class After(gdb.Breakpoint):
    def __init__(self, entry):
        function = entry.block.function
        source = {} if plan["language"] == "rust" else {"source": function.symtab.fullname()}
        super().__init__(function=function.linkage_name, internal=True, **source)
        self.entry = entry

    def stop(self):
        self.entry.read()
        return self.entry.is_done


def compare_call(block, captured):
    frame = captured_in_gdb.frame()
    names = Counter(parameter.name for parameter in parameters_of(block))
    for parameter in parameters_of(block):
        if names[parameter.name] > 1 or parameter.name not in captured:
            continue
        ours = captured[parameter.name]
        value = frame.read_var(parameter)
        compared = captured_in_gdb.compare(ours, value, captured_in_gdb.content_of, program)
        verdict = compared["verdict"]
        # clang describes it from the stack pointer that the first instructions make; gdb takes that of now.
        if verdict == "wrong" and "frame base reg $rsp" in gdb.execute("info address " + parameter.name, to_string=True):
            verdict = "unknown to gdb"
        # gdb computes it from what the caller's debug information says of the call.
        if verdict == "wrong" and ours["value"] is None and ours["error"] == "only known to the caller":
            verdict = "not readable"
        if verdict == "wrong" and ours["value"] is None and ours["error"] == "its type is not known" and \
                parameter.type.strip_typedefs().code == gdb.TYPE_CODE_FUNC:  # of Go
            verdict = "not readable"
        # What lies in a buffer that the function will fill differs between runs.
        if verdict == "wrong" and str(parameter.type.strip_typedefs()) == "char *":
            verdict = "a buffer"
        results["values"].append([block.function.name, parameter.name, verdict, f"{compared['detail'][:300]}"])


results = {"functions": {address: describe(int(address, 16)) for address in plan["functions"]},
          "rows": line_rows(), "values": [],
          "inlined": {address: inlined_functions(address) for address in plan["addresses"]}}
if plan["captured"]:
    linked, _ = captured_in_gdb.image_of_program()
    gdb.execute("starti " + plan["run"])
    image = captured_in_gdb.image_of_program()
    base = image[0] - linked
    program = {"language": plan["language"], "image": image, "leaves_out": True}
    entries = [Entry(int(address, 16), base, calls) for address, calls in plan["captured"].items()]
    breakpoints = []
    for entry in entries:
        breakpoints.append((entry, entry))
        if plan["prologue"]:
            breakpoints.append((After(entry), entry))
    while gdb.selected_inferior().pid != 0:
        gdb.execute("continue", to_string=True)
        for breakpoint, entry in breakpoints:
            if entry.is_done and breakpoint.is_valid():
                breakpoint.delete()
        breakpoints = [each for each in breakpoints if each[0].is_valid()]
    results["unseen"] = sorted(entry.block.function.name for entry in entries if entry.calls < len(entry.captured))
with open(RESULTS, "w") as results_file:
    json.dump(results, results_file)
