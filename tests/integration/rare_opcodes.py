#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The x86 instructions whose tables the program has packed (src/cli/startup.ld), each decoded by a run of its
own: as llvm-mc-19 --disassemble prints them. Usage: rare_opcodes.py UPROBECTL; prints TAP."""

import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap

INSTRUCTIONS = {
    "three bytes, 0f 38": [("66 0f 38 00 c1", "pshufb %xmm1, %xmm0"), ("f2 48 0f 38 f1 c1", "crc32q %rcx, %rax")],
    "three bytes, 0f 3a": [("66 0f 3a 0f c1 05", "palignr $0x5, %xmm1, %xmm0")],
    "3DNow!": [("0f 0f c1 9e", "pfadd %mm1, %mm0")],
    "XOP, maps 8 to 10": [("8f e8 78 c0 c1 05", "vprotb $0x5, %xmm1, %xmm0"), ("8f e9 78 01 c8", "blcfilll %eax, %eax"),
                          ("8f ea 78 10 c1 05 00 00 00", "bextrl $0x5, %ecx, %eax")],
    "VEX, maps 2, 3 and 7": [("c4 e2 7d 18 c0", "vbroadcastss %xmm0, %ymm0"),
                             ("c4 e3 7d 39 c1 01", "vextracti128 $0x1, %ymm0, %xmm1"),
                             ("c4 e7 7b f8 c0 01 00 00 00", "urdmsr $0x1, %rax")],
    "EVEX, maps 2 to 6": [("62 f2 7d 48 58 c1", "vpbroadcastd %xmm1, %zmm0"),
                          ("62 f3 7d 48 3b c1 01", "vextracti32x8 $0x1, %zmm0, %ymm1"),
                          ("62 f4 7c 18 01 c8", "addl %ecx, %eax, %eax"), ("62 f5 7c 48 58 c1", "vaddph %zmm1, %zmm0, %zmm0"),
                          ("62 f6 7d 48 98 c1", "vfmadd132ph %zmm1, %zmm0, %zmm0")],
}


def make_library(folder, instructions):
    """A library with a function f0, f1, … for each instruction."""
    source, library = folder / "rare.S", folder / "rare.so"
    source.write_text("".join(
        f".globl f{number}\n.type f{number}, @function\nf{number}: .byte {', '.join(f'0x{byte}' for byte in code.split())}\n"
        f"ret\n.size f{number}, . - f{number}\n" for number, (code, _) in enumerate(instructions)))
    subprocess.run(["gcc", "-shared", "-nostdlib", "-o", library, source], check=True, timeout=60)
    return library


def main():
    program = sys.argv[1]
    tap = Tap()
    instructions = [each for kind in INSTRUCTIONS.values() for each in kind]
    with tempfile.TemporaryDirectory() as folder:
        library = make_library(Path(folder), instructions)
        for kind, expected in INSTRUCTIONS.items():
            problems = []
            for each in expected:
                # The error quotes the instruction in which the offset lies.
                run = subprocess.run([program, "resolve", library, f"f{instructions.index(each)}+1"],
                                     capture_output=True, text=True, timeout=60, check=False)
                code, text = each
                if f"+0x0 is '{text}" not in run.stderr or f", {len(code.split())} bytes\n" not in run.stderr:
                    problems.append(f"{code}, expected {text}: {run.stdout}{run.stderr}")
            tap.check(f"{kind}: decoded by a run that decodes nothing else", problems)
    tap.done()


if __name__ == "__main__":
    main()
