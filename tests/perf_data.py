# SPDX-License-Identifier: Apache-2.0
"""User stacks of `perf record --call-graph dwarf`, as perf.data has them: the registers and the bytes of
the stack that the kernel has copied at each sample. Format: Linux
tools/perf/Documentation/perf.data-file-format.txt, include/uapi/linux/perf_event.h. x86-64 alone."""

import struct
from dataclasses import dataclass
from pathlib import Path

# Bits of sample_type, in the order in which their fields stand in a sample.
IP, TID, TIME, ADDR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
CALLCHAIN, ID, CPU, PERIOD, STREAM_ID = 1 << 5, 1 << 6, 1 << 7, 1 << 8, 1 << 9
REGS_USER, STACK_USER, IDENTIFIER = 1 << 12, 1 << 13, 1 << 16

# arch/x86/include/uapi/asm/perf_regs.h, and the name of each as uprobectl debug-unwind takes it.
REGISTERS = ["rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp", "rip", "flags", "cs", "ss", "ds", "es",
             "fs", "gs", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"]
SAMPLE = 9  # PERF_RECORD_SAMPLE


@dataclass
class Sample:
    time_ns: int
    registers: dict
    stack: bytes  # from rsp on


def read_sample(body, kinds, mask):
    at = 0

    def number():
        nonlocal at
        at += 8
        return struct.unpack_from("<Q", body, at - 8)[0]

    time_ns = 0
    for kind in (IDENTIFIER, IP, TID, TIME, ADDR, ID, STREAM_ID, CPU, PERIOD):
        if kinds & kind:
            value = number()
            if kind == TIME:
                time_ns = value
    if kinds & CALLCHAIN:
        entries = number()
        at += 8 * entries
    if not number():  # no user registers: a thread of the kernel
        return None
    registers = {REGISTERS[bit]: number() for bit in range(64) if mask >> bit & 1}
    size = number()
    stack = body[at:at + size]
    at += size
    if size:
        stack = stack[:number()]
    return Sample(time_ns, registers, stack)


def samples(path):
    """Of a file with one event, as they lie in it."""
    data = Path(path).read_bytes()
    assert data[:8] == b"PERFILE2"
    attrs, _, begin, size = struct.unpack_from("<QQQQ", data, 24)
    kinds, = struct.unpack_from("<Q", data, attrs + 24)
    mask, = struct.unpack_from("<Q", data, attrs + 80)
    at = begin
    while at < begin + size:
        kind, _, length = struct.unpack_from("<IHH", data, at)
        if kind == SAMPLE:
            sample = read_sample(data[at + 8:at + length], kinds, mask)
            if sample is not None:
                yield sample
        at += length
