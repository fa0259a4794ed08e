#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""foreign_code.py UPROBECTL
Values of code that C's compilers for this platform do not make: of assemblers, of Fortran, of other
calling conventions, of static probes with operands of 16 bytes. What is right, the source says.
Needs root. Prints TAP."""

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

ASSEMBLY = """.text
.globl mulacc
.type mulacc, @function
mulacc:
  movq %rdi, %rax
  imulq %rsi, %rax
  addq %rdx, %rax
  ret
.size mulacc, .-mulacc
.section .note.GNU-stack, "", @progbits
"""
CALLER = """long mulacc(long, long, long);
int main(void) { return mulacc(3, 10, 100) == 0; }
"""
# Data between instructions: words that read as returns, and a byte after which the next instruction decodes as another.
DATA = """.text
.globl table
.type table, @function
table:
  jmp 1f
words:
  .long 0x90c39090, 0x9090c390
1: leaq words(%rip), %rdx
  movl (%rdx,%rdi,4), %eax
  ret
.size table, .-table
.globl skips
.type skips, @function
skips:
  jmp 1f
  .byte 0xb8
1: movl $0x90c3, %ecx
  movl %ecx, %eax
  ret
.size skips, .-skips
.section .note.GNU-stack, "", @progbits
"""
DATA_CALLER = """
#include <stdio.h>
unsigned table(long), skips(void);
int main(void) {
  FILE* file = fopen("seen", "w");
  fprintf(file, "%x %x %x", table(0), table(1), skips());
  return fclose(file);
}
"""
RIGHT_DATA = "90c39090 9090c390 90c3"
# With the large code model an address is in the instruction, and the loader writes it there.
RELOCATED = """
static int number = 42;
int* find(void) { return &number; }
int* after_double(double value) { return &number; }
"""
RELOCATED_CALLER = """
#include <stdio.h>
int *find(void), *after_double(double);
int main(void) {
  FILE* file = fopen("seen", "w");
  const int *found = find(), *after = after_double(1.5);
  fprintf(file, "%d %d", found ? *found : 0, after ? *after : 0);
  return fclose(file);
}
"""
FORTRAN = """module farm
  type :: item
    integer :: id
    character(len=8) :: name
  end type
contains
  subroutine weigh(label, n, it, names)
    character(len=*), intent(in) :: label
    integer, intent(in) :: n
    type(item), intent(in) :: it
    character(len=4), intent(in) :: names(2)
    print *, label, n, it%id, names
  end subroutine
end module
program main
  use farm
  call weigh("scale", 3, item(5, "box"), ["ab  ", "cdef"])
  call weigh("", 4, item(6, "ab""c"), ["gh  ", "ijkl"])
end program
"""
CONVENTIONS = """
#define CODE(convention) __attribute__((noinline, convention))
#define WORK __asm__ volatile("" ::: "memory")
CODE(regcall) int by_regcall(int a, int b, int c, int d, int e, int f, int g, int h) {
  WORK; return a + b + c + d + e + f + g + h; }
CODE(vectorcall) long by_vectorcall(int a, long b) { WORK; return a - b; }
CODE(ms_abi) int by_ms(int a, long b, int c, int d) { WORK; return a - (int)b * d + c; }
CODE(preserve_most) int by_most(int a, long b) { WORK; return a - (int)b * 3; }
int main(void) {
  return by_regcall(1, 2, 3, 4, 5, 6, 7, 8) + by_vectorcall(1, 9) + by_ms(1, 7, 2, 5) + by_most(1, 4) == 0;
}
"""
BLOCK = """
struct pair { long x, y; };
__attribute__((noinline)) void work(struct pair a) {
  __asm__ volatile("990: nop\\n"
    ".pushsection .note.stapsdt,\\"\\",\\"note\\"\\n .balign 4\\n .4byte 992f-991f, 994f-993f, 3\\n"
    "991: .asciz \\"stapsdt\\"\\n992: .balign 4\\n993: .8byte 990b\\n .8byte 0\\n .8byte 0\\n"
    ".asciz \\"farm\\"\\n .asciz \\"whole\\"\\n .asciz \\"16@%0 -8@%1 16@%%xmm0 12@(%2,%2,2)\\"\\n994: .balign 4\\n"
    ".popsection\\n" :: "m"(a), "m"(a.y), "r"(&a));
}
int main(void) { work((struct pair){3, -4}); return 0; }
"""
# Its operand means the static variable; NAMESAKE has an exported one of the same name.
NAMES_STATIC = """
static volatile long total = 7;
void count(void) {
  __asm__ volatile("990: nop\\n"
    ".pushsection .note.stapsdt,\\"\\",\\"note\\"\\n .balign 4\\n .4byte 992f-991f, 994f-993f, 3\\n"
    "991: .asciz \\"stapsdt\\"\\n992: .balign 4\\n993: .8byte 990b\\n .8byte 0\\n .8byte 0\\n"
    ".asciz \\"farm\\"\\n .asciz \\"total\\"\\n .asciz \\"-8@%0\\"\\n994: .balign 4\\n"
    ".popsection\\n" :: "m"(total));
}
"""
NAMESAKE = "long total = 99; void count(void);"
# Ends itself at its start if the code between the two symbols has changed. With "wait" it calls after a byte of stdin.
SELF_CHECK = """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#define MODULE __attribute__((section(".module"), noinline))
MODULE void BORINGSSL_bcm_text_start(void) { __asm__ volatile("nop"); }
MODULE int digest(int x) { __asm__ volatile(""); return x * 3 + 1; }
MODULE void BORINGSSL_bcm_text_end(void) { __asm__ volatile("nop"); }
unsigned BORINGSSL_integrity_test(void) {
  unsigned hash = 7;
  for (const volatile unsigned char* at = (void*)BORINGSSL_bcm_text_start; at < (unsigned char*)BORINGSSL_bcm_text_end; ++at)
    hash = (hash ^ *at) * 16777619u;
  return hash;
}
int main(int count, char** words) {
  unsigned hash = BORINGSSL_integrity_test();
  if (count < 2) return printf("%u", hash) < 0;
  if (hash != strtoul(words[1], 0, 0)) abort();
  char byte;
  if (count > 2 && read(0, &byte, 1) < 0) return 1;
  return digest(count) == 0;
}
"""
# Two functions of one name, and the copies of one of them.
COPIED = """
static __attribute__((noinline)) int help(int x) { __asm__ volatile(""); return x + 1; }
int copies(int);
int main(int count, char** words) { return (count > 9 ? help(count) : copies(count)) == 0; }
"""
COPIES = """
static inline __attribute__((always_inline)) int help(int x) { __asm__ volatile("nop"); return x * 2; }
int copies(int x) { return help(x) + help(x + 1) + help(x + 2); }
"""


def run(*command):
    done = subprocess.run([str(each) for each in command], capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.stderr}")
    return done


def records(kind, *command):
    done = run(UPROBECTL, *command)
    return [record for record in map(json.loads, (line for line in done.stdout.splitlines() if line.startswith("{")))
            if record["type"] == kind]


def events(program, function, *options):
    return records("event", "attach", "-q", "-j", "-d", "60", "--forward-exit", *options, program, function, "--", program)


def values(event):
    return {each["name"]: each["error"] or each["value"] for each in event["arguments"]}


def assembly():
    Path("mulacc.s").write_text(ASSEMBLY, encoding="ascii")
    Path("caller.c").write_text(CALLER, encoding="ascii")
    run("gcc", "-g", "-O1", "caller.c", "mulacc.s", "-o", "caller")
    (event,) = events("./caller", "mulacc", "--latency")
    seen = list(values(event).items())[:3] + [event["return_value"]]
    TAP.check("functions of assemblers with debug information have what those without it have",
              [] if seen == [("arg0", "0x3"), ("arg1", "0xa"), ("arg2", "0x64"), "0x82"] else [seen])
    named = values(events("./caller", "mulacc", "--args", "arg1:s32")[0])
    TAP.check("arguments of assembly can be named", [] if named == {"arg1": 10} else [named])


def fortran():
    if not shutil.which("gfortran"):
        TAP.skip("strings of Fortran", "no gfortran")
        return
    Path("farm.f90").write_text(FORTRAN, encoding="ascii")
    right = [{"label": "scale", "n": 3, "it": {"id": 5, "name": "box     "}, "names": ["ab  ", "cdef"],
              "_label": 5, "_names": 4},
             {"label": "", "n": 4, "it": {"id": 6, "name": 'ab"c    '}, "names": ["gh  ", "ijkl"],
              "_label": 0, "_names": 4}]
    for level in ("-O0", "-O1"):
        run("gfortran", "-g", level, "-fno-inline", "farm.f90", "-o", "farm")
        seen = [values(event) for event in events("./farm", "weigh")]
        TAP.check(f"strings of Fortran have their characters and lengths at {level}", [] if seen == right else seen)
        chosen = [values(event)["n"] for event in events("./farm", "weigh", "--if", 'label == "scale"')]
        TAP.check(f"strings of Fortran are compared at {level}", [] if chosen == [3] else chosen)


def conventions():
    if not shutil.which("clang-19"):
        TAP.skip("other calling conventions", "no clang-19")
        return
    Path("conventions.c").write_text(CONVENTIONS, encoding="ascii")
    right = {"by_regcall": (dict(zip("abcdefgh", range(1, 9))), 36), "by_vectorcall": ({"a": 1, "b": 9}, -8),
             "by_ms": ({"a": 1, "b": 7, "c": 2, "d": 5}, -32), "by_most": ({"a": 1, "b": 4}, -11)}
    for level in ("-O0", "-O2"):
        run("clang-19", "-g", level, "conventions.c", "-o", "conventions")
        problems = []
        for event in events("./conventions", "*by_*", "--latency"):
            arguments, result = right[event["symbol"].split("@")[0].removeprefix("__regcall3__")]
            seen = values(event)
            # Without optimization only the convention says where parameters are at the entry.
            guessed = {name for name in seen if seen[name] not in (arguments[name], "the calling convention is not known")}
            known = level == "-O2" or "by_most" in event["symbol"]
            if guessed or (known and seen != arguments) or event["return_value"] != result:
                problems.append(f"{event['symbol']}: {seen}, {event['return_value']}")
        TAP.check(f"parameters and results of other conventions are right or not shown at {level}", problems)


def blocks():
    Path("block.c").write_text(BLOCK, encoding="ascii")
    run("gcc", "-O2", "block.c", "-o", "block")
    (event,) = records("event", "usdt", "attach", "-q", "-j", "-d", "60", "./block", "farm:whole", "--", "./block")
    seen = [each["error"] or each["value"] for each in event["arguments"]]
    bytes_of_pair = (3).to_bytes(8, "little").hex() + (-4).to_bytes(8, "little", signed=True).hex()
    TAP.check("operands of 16 bytes in memory are shown as bytes", [] if seen[:2] == [bytes_of_pair, -4] else seen)
    listed = run(UPROBECTL, "usdt", "list", "./block").stdout.split("\t")[3].split()
    TAP.check("operands that cannot be read are marked, and no others",
              [] if [each.startswith("!") for each in listed] == [False, False, True, True] else listed)


def names_of_variables():
    Path("static.c").write_text(NAMES_STATIC, encoding="ascii")
    Path("namesake.c").write_text(NAMESAKE, encoding="ascii")
    Path("user.c").write_text("void count(void); int main(void) { count(); return 0; }", encoding="ascii")
    Path("alone.c").write_text(NAMES_STATIC + "int main(void) { count(); return 0; }", encoding="ascii")
    run("gcc", "-O1", "-shared", "-fPIC", "static.c", "namesake.c", "-o", "libtotal.so")
    run("gcc", "user.c", "./libtotal.so", "-o", "user")
    run("objcopy", "--only-keep-debug", "libtotal.so", "total.debug")
    run("strip", "libtotal.so")
    run("gcc", "-O1", "-rdynamic", "static.c", "user.c", "namesake.c", "-s", "-o", "stripped")
    run("gcc", "-O1", "-rdynamic", "alone.c", "-o", "alone")

    def seen(target, program, *options):
        done = run(UPROBECTL, "usdt", "attach", "-j", "-d", "5", *options, target, "farm:total", "--", program)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        return [each["arguments"][0]["value"] for each in lines if each["type"] == "event"], done.stderr
    value, said = seen("./libtotal.so", "./user")
    TAP.check("a variable of a stripped library is not taken for its namesake that is exported",
              [] if value == [None] and "'total' may be a static variable" in said else [value, said])
    value, said = seen("./libtotal.so", "./user", "--debug-dir", "total.debug")
    TAP.check("with the debug file two variables of one name are not mixed up",
              [] if value == [None] and "several symbols 'total'" in said else [value, said])
    value, said = seen("./stripped", "./stripped")
    TAP.check("a variable that a stripped program exports is shown with a doubt",
              [] if "may mean static ones" in said else [value, said])
    value, said = seen("./alone", "./alone")
    TAP.check("in a file with all symbols the variable is certain", [] if value == [7] and "may mean" not in said else [value, said])


def attach(*words):
    """The end of a run, and what the program has written."""
    Path("seen").unlink(missing_ok=True)
    done = subprocess.run([UPROBECTL, "attach", "-q", "-j", "-d", "5", *words], capture_output=True, text=True,
                          check=False)
    return done, Path("seen").read_text(encoding="ascii") if Path("seen").exists() else ""


def exits_in(done):
    return done.stdout.count('"type":"event"') if done.returncode == 0 else done.stderr


def data_among_code():
    Path("data.s").write_text(DATA, encoding="ascii")
    Path("data.c").write_text(DATA_CALLER, encoding="ascii")
    run("gcc", "data.s", "data.c", "-o", "data")
    done, seen = attach("--return", "./data", "table", "--", "./data")
    TAP.check("words between instructions that read as returns are left as they are",
              [] if (exits_in(done), seen) == (2, RIGHT_DATA) else [exits_in(done), seen])
    done, seen = attach("./data", "skips+0x3", "--", "./data")
    TAP.check("an instruction begins where a jump leads, also after a byte of data",
              [] if (exits_in(done), seen) == (1, RIGHT_DATA) else [exits_in(done), seen])
    refused = {"skips+0x7": "is inside an instruction: skips+0x3 is", "table+0x6": "is in data that the function loads"}
    problems = []
    for point, reason in refused.items():
        done, seen = attach("./data", point, "--", "./data")
        if done.returncode == 0 or reason not in done.stderr:
            problems.append(f"{point}: {done.returncode} {done.stderr}")
    TAP.check("points inside of that instruction and in the words are refused", problems)


def relocated_code():
    Path("relocated.c").write_text(RELOCATED, encoding="ascii")
    Path("main.c").write_text(RELOCATED_CALLER, encoding="ascii")
    run("gcc", "-g", "-O0", "-fno-pic", "-mcmodel=large", "-fcf-protection=none", "-shared", "-nostdlib",
        "-Wl,-z,notext", "relocated.c", "-o", "librelocated.so")
    run("gcc", "main.c", "./librelocated.so", "-o", "relocated")
    right = "42 42"
    done, seen = attach("./librelocated.so", "find+0x4", "--", "./relocated")
    TAP.check("an instruction that the loader changes is refused",
              [] if done.returncode != 0 and "text relocation" in done.stderr else [done.returncode, done.stderr, seen])
    done, seen = attach("--return", "./librelocated.so", "find", "--", "./relocated")
    TAP.check("other instructions of such a function are probed",
              [] if (exits_in(done), seen) == (1, right) else [exits_in(done), seen])
    done, seen = attach("./librelocated.so", "after_double", "--", "./relocated")
    TAP.check("a probe is not moved to such an instruction after a prologue",
              [] if (exits_in(done), seen) == (1, right) else [exits_in(done), seen])


def self_checks():
    Path("check.c").write_text(SELF_CHECK, encoding="ascii")
    run("gcc", "-O1", "-fno-toplevel-reorder", "check.c", "-o", "check")
    right = run("./check").stdout
    for name, options, command in (("a command", [], ["--", "./check", right]), ("all processes", [], []),
                                   ("children", ["--follow", "-p", str(os.getpid())], [])):
        done = subprocess.run([UPROBECTL, "attach", "-d", "5", *options, "./check", "digest", *command],
                              capture_output=True, text=True, check=False)
        TAP.check(f"code that a program compares with its hash at its start is refused in {name}",
                  [] if done.returncode == 1 and "FIPS integrity test" in done.stderr and "-p PID" in done.stderr else
                  [done.returncode, done.stderr])
    done = subprocess.run([UPROBECTL, "attach", "-j", "-d", "5", "./check", "main", "--", "./check", right],
                          capture_output=True, text=True, check=False)
    TAP.check("other code of such a program is probed",
              [] if exits_in(done) == 1 and "FIPS" not in done.stderr else [exits_in(done), done.stderr])
    with subprocess.Popen(["./check", right, "wait"], stdin=subprocess.PIPE) as program:
        with subprocess.Popen([UPROBECTL, "attach", "-j", "-d", "5", "-n", "1", "-p", str(program.pid), "./check", "digest"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as attached:
            said = ""
            while "probing" not in said and (line := attached.stderr.readline()):
                said += line
            program.communicate(b"x")
            hits = attached.stdout.read().count('"type":"event"')
    TAP.check("a process that has passed the test is probed, with a warning",
              [] if hits == 1 and said.count("repeats the test") == 1 else [hits, said])
    run("gcc", "-O1", "-s", "-Wl,--export-dynamic-symbol=BORINGSSL_integrity_test", "check.c", "-o", "stripped_check")
    done = subprocess.run([UPROBECTL, "attach", "-j", "-d", "5", "./stripped_check", "BORINGSSL_integrity_test", "--",
                           "./stripped_check"], capture_output=True, text=True, check=False)
    TAP.check("a stripped file that has such code is probed with a warning",
              [] if exits_in(done) == 1 and "which part is not known" in done.stderr else [exits_in(done), done.stderr])


def copies_of_others():
    Path("copied.c").write_text(COPIED, encoding="ascii")
    Path("copies.c").write_text(COPIES, encoding="ascii")
    run("gcc", "-g", "-O1", "copied.c", "copies.c", "-o", "copied")
    done = subprocess.run([UPROBECTL, "attach", "-d", "5", "./copied", "help", "--", "./copied"], capture_output=True,
                          text=True, check=False)
    TAP.check("a function without hits is not said to be where another function of its name is inlined",
              [] if "not called" in done.stderr and "inlined at" not in done.stderr else [done.stderr])


def main():
    if os.geteuid() != 0:
        print("1..0 # SKIP only root attaches")
        return
    if os.uname().machine != "x86_64":
        print("1..0 # SKIP its assembly is for x86-64")
        return
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for part in (assembly, data_among_code, relocated_code, fortran, conventions, blocks, names_of_variables,
                     self_checks, copies_of_others):
            part()
        os.chdir("/")
    TAP.done()


main()
