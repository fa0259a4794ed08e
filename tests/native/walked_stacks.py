#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""walked_stacks.py UPROBECTL
Stacks that the kernel walks, and callers, where a function has no frame: recursion, whose callers all have the same
address, entries that the kernel recognizes and others, symbols in the frame of another function, jumps to code
that takes a frame down, and functions without a size. Needs root and gcc. Prints TAP."""

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap

UPROBECTL = str(Path(sys.argv[1]).resolve())
TAP = Tap()
DEPTH = 6  # of the calls of recurse()
ROUNDS = 3

RECURSION = r"""
volatile int sink;
__attribute__((noipa)) void leaf(int* n) { sink += *n; }
__attribute__((noipa)) int recurse(int n) {
  if (n == 1) return 7;
  int local = n;
  leaf(&local);
  int sum = recurse(n - 1) * local;
  leaf(&local);
  return sum + local;
}
int main(void) { return recurse(6) == 0; }
"""
# x86-64. `inner` is in the frame of `outer`, `work.cold` in that of `work`. The lowest word of both is an address in
# `innocent`. A static probe is on the first byte of `work.cold`.
SYMBOLS = r"""
int sink;
__attribute__((noipa)) void target(int n) { sink += n; }
__attribute__((noipa, used)) void innocent(int n) { target(n); target(n + 1); }
__asm__(".text\n.globl outer\n.type outer, @function\nouter:\n.cfi_startproc\n"
        "sub $24, %rsp\n.cfi_adjust_cfa_offset 24\nlea innocent+5(%rip), %rax\nmov %rax, (%rsp)\nmov $5, %edi\ncall target\n"
        ".globl inner\n.type inner, @function\ninner: mov $6, %edi\ncall target\n"
        "add $24, %rsp\n.cfi_adjust_cfa_offset -24\nret\n.cfi_endproc\n.size inner, . - inner\n.size outer, . - outer\n");
__asm__(".type work.cold, @function\nwork.cold: .cfi_startproc\n.cfi_def_cfa_offset 32\nprobed: nop\nadd $24, %rsp\n"
        ".cfi_def_cfa_offset 8\nret\n.cfi_endproc\n.size work.cold, . - work.cold\n"
        ".globl work\n.type work, @function\nwork: .cfi_startproc\nsub $24, %rsp\n.cfi_def_cfa_offset 32\n"
        "lea innocent+5(%rip), %rax\nmov %rax, (%rsp)\njmp work.cold\n.cfi_endproc\n.size work, . - work\n"
        ".pushsection .note.stapsdt, \"\", \"note\"\n.balign 4\n.4byte 8, 2f-1f, 3\n.asciz \"stapsdt\"\n"
        "1: .8byte probed, 0, 0\n.asciz \"test\"\n.asciz \"cold\"\n.asciz \"\"\n2: .balign 4\n.popsection\n");
void outer(void), work(void);
int main(void) { for (int i = 0; i < 3; i++) outer(), work(); return sink == 0; }
"""
# x86-64. `ends` jumps with its frame to a function that takes it down. The lowest word of the frame is an address in
# `innocent`. The compiler does the same in `windows`, with functions of libgcc that restore registers.
ENDS = r"""
int sink;
__attribute__((noipa)) void target(int n) { sink += n; }
__attribute__((noipa, used)) void innocent(int n) { target(n); target(n + 1); }
__asm__(".text\n.type shared_end, @function\nshared_end: .cfi_startproc\n.cfi_def_cfa_offset 32\n.cfi_offset 3, -16\n"
        "add $16, %rsp\n.cfi_def_cfa_offset 16\npop %rbx\n.cfi_def_cfa_offset 8\nret\n"
        ".cfi_def_cfa_offset 16\n1: xor %eax, %eax\npop %rbx\n.cfi_def_cfa_offset 8\nret\n.cfi_endproc\n"
        ".size shared_end, . - shared_end\n.globl ends\n.type ends, @function\nends: .cfi_startproc\npush %rbx\n"
        ".cfi_def_cfa_offset 16\n.cfi_offset 3, -16\nsub $16, %rsp\n.cfi_def_cfa_offset 32\nlea 5(%rdi), %eax\n"
        "lea innocent+9(%rip), %rcx\nmov %rcx, (%rsp)\njmp shared_end\n.cfi_endproc\n.size ends, . - ends\n"
        ".type leaves_frame, @function\nleaves_frame: .cfi_startproc\npush %rbx\n.cfi_def_cfa_offset 16\n"
        "jmp 1b\n.cfi_endproc\n.size leaves_frame, . - leaves_frame\n");
int ends(int n);
__attribute__((noipa, ms_abi)) int windows(int n) { target(n); target(n + 1); return n + 50; }
__attribute__((noipa)) int calls(int n) { return ends(n) + windows(n) + 1; }
int main(void) { int sum = 0; for (int i = 0; i < 3; i++) sum += calls(i); return sum == 0; }
"""
# x86-64. `label` and `twin` are functions without a size, `twin` is also `sized`; `inside` is in the middle of `main`.
LABELS = r"""
#include <unistd.h>
int sink;
__attribute__((noipa)) void target(int n) { sink += n; }
__asm__(".text\n.type label, @function\nlabel: sub $8, %rsp\ncall target\nadd $8, %rsp\nret\n"
        ".type twin, @function\n.type sized, @function\ntwin: sized: sub $8, %rsp\ncall target\nadd $8, %rsp\nret\n"
        ".size sized, . - sized\n");
void label(int n), twin(int n);
int main(void) {
  usleep(100000);
  for (int i = 0; i < 3; i++) {
    label(i);
    twin(i);
    __asm__ volatile(".type inside, @function\ninside: nop");
    target(i);
  }
  return sink == 0;
}
"""


def attach(program, *words, command=("attach",)):
    done = subprocess.run([UPROBECTL, *command, "-j", "-d", "5s", *words, "--", program], capture_output=True, text=True,
                          timeout=60)
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def stacks(program, *words, command=("attach",)):
    """Of each event, the symbols of its stack from the innermost frame on."""
    return [[frame["symbol"] for frame in record["stack"]] for record in attach(program, *words, command=command)[0]
            if record["type"] == "event"]


def callers(program, *words):
    return [record["caller"] and record["caller"]["symbol"] for record in attach(program, "--caller", *words)[0]
            if record["type"] == "event"]


def compile_program(folder, name, source, *options):
    (folder / f"{name}.c").write_text(source)
    subprocess.run(["gcc", *options, "-o", folder / name, folder / f"{name}.c"], check=True)
    return str(folder / name)


def check_recursion(folder):
    forms = {"with push first": ["-O0"], "with a test first": ["-O2", "-fno-omit-frame-pointer"]}
    if platform.machine() == "x86_64":
        forms["with endbr64 first"] = ["-O1", "-fno-omit-frame-pointer", "-fcf-protection"]
    entries = list(range(1, DEPTH + 1))
    for form, options in forms.items():
        program = compile_program(folder, "recursion", RECURSION, *options)
        for phase, depths in (("--entry", entries), ("--return", entries[::-1])):
            found = stacks(program, phase, "--stack=fp", program, "recurse")
            TAP.check(f"{phase} --stack=fp has each level of a recursion, {form}",
                      [] if [stack.count("recurse") for stack in found] == depths and
                      all("main" in stack for stack in found) else [found])
            records, errors = attach(program, phase, "--count", "--by", "stack", program, "recurse")
            TAP.check(f"{phase} --count --by stack says that frames may be missing, {form}",
                      [] if "stacks of --by follow frame pointers" in errors else [errors])
            records, errors = attach(program, phase, "--count", "--stack=fp", program, "recurse")
            counts = [record["count"] for record in records if record["type"] == "count" and record.get("stack")]
            TAP.check("but not --stack=fp, which asks for it", [] if "frame pointers" not in errors else [errors])
            TAP.check(f"{phase} --count --stack=fp counts them apart, {form}", [] if counts == [1] * DEPTH else [records])


def check_symbols(folder):
    program = compile_program(folder, "symbols", SYMBOLS, "-O2")
    found = callers(program, "--entry", program, "inner")
    TAP.check("a symbol in the frame of another function has no caller on top of the stack",
              [] if found == [None] * ROUNDS else [found])
    records, errors = attach(program, "--entry", "--if", "caller == main", program, "inner")
    TAP.check("so its caller is not compared", [] if [record["type"] for record in records] == ["error"] and
              "first instruction" in errors else [records, errors])
    found = stacks(program, "--stack=fp", program, "test:cold", command=("usdt", "attach"))
    TAP.check("nor has a static probe on the first byte of a cold part",
              [] if len(found) == ROUNDS and all(stack[0] == "work.cold" and "innocent" not in stack for stack in found)
              else [found])


def check_ends(folder):
    program = compile_program(folder, "ends", ENDS, "-O2", "-mcall-ms2sysv-xlogues")
    for function, first in (("ends", 5), ("windows", 50)):
        for words in (["--return"], ["--return", "--return-at", "ret"], ["--latency"]):
            records, errors = attach(program, "--caller", *words, program, function)
            found = [(record["return_value"], record["caller"] and record["caller"]["symbol"])
                     for record in records if record["type"] == "event"]
            # The result has 32 of the 64 bits.
            results = [value and int(value, 0) & 0xffffffff for value, _ in found]
            TAP.check(f"{' '.join(words)}: {function} returns from the function that takes its frame down",
                      [] if results == list(range(first, first + ROUNDS)) and
                      all(caller == "calls" or (caller is None and "--latency" not in words) for _, caller in found)
                      else [found, errors])
    records, errors = attach(program, "--return", program, "leaves_frame")
    TAP.check("a jump with the frame to code that does more than return is refused",
              [] if [record["type"] for record in records] == ["error"] and
              "leaves its stack frame to shared_end+0x" in errors else [records, errors])


def check_warnings(folder):
    program = compile_program(folder, "ends", ENDS, "-O2")
    for words, function, where in ((["--entry"], "ends+0x5", "at the probe"),
                                   (["--return"], "ends", "at some of its exits")):
        errors = attach(program, "--caller", *words, program, function)[1]
        TAP.check(f"a warning says that --caller is not known {where} of {function}",
                  [] if f"{function}: --caller is not known {where}" in errors else [errors])
    errors = attach(program, "--caller", "--entry", program, "ends")[1]
    TAP.check("but not of its entry", [] if "--caller is not known" not in errors else [errors])


def check_labels(folder):
    program = compile_program(folder, "labels", LABELS, "-O2")
    for caller, shown in (("label", "label"), ("main", "main"), ("twin", "sized")):
        found = callers(program, "--entry", "--if", f"caller == {caller}", program, "target")
        TAP.check(f"--if 'caller == {caller}' knows the code of a function without a size", [] if found == [shown] * ROUNDS
                  else [found])
    errors = attach(program, "--entry", "--if", "caller == inside", program, "target")[1]
    TAP.check("and says so if it is inside another function", [] if "'inside' has no size, and is inside another"
              in errors else [errors])


def main():
    if os.geteuid() != 0 or not shutil.which("gcc"):
        TAP.skip("walked stacks", "not root" if os.geteuid() != 0 else "no program 'gcc'")
        return TAP.done()
    with tempfile.TemporaryDirectory() as name:
        check_recursion(Path(name))
        if platform.machine() == "x86_64":
            check_symbols(Path(name))
            check_ends(Path(name))
            check_labels(Path(name))
            check_warnings(Path(name))
    TAP.done()


main()
