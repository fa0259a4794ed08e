# SPDX-License-Identifier: Apache-2.0
"""Stacks of a running program as perf takes them, in the layout that uprobectl reads."""

import os
import re
import shutil
import struct
import subprocess
from pathlib import Path

import perf_data

# DWARF numbers 0 to 16.
DWARF_ORDER = ["rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp",
               "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "rip"]


def record(command, folder, seconds):
    """perf.data of the command while it runs, and maps.txt; or why perf cannot. The command writes a line
    when everything is loaded."""
    program = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        program.stdout.readline()
        (folder / "maps.txt").write_text(Path(f"/proc/{program.pid}/maps").read_text())
        done = subprocess.run(
            ["perf", "record", "-e", "cpu-clock:u", "-F", "2000", "--call-graph", "dwarf,16384",
             "-o", folder / "perf.data", "-p", str(program.pid), "--", "sleep", str(seconds)],
            capture_output=True, text=True, timeout=120)
    finally:
        program.kill()
        program.wait()
    return None if done.returncode == 0 else done.stderr.strip()


def own_vdso():
    """The kernel's code in this process, which is the same in all."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        if line.endswith("[vdso]"):
            start, end = (int(number, 16) for number in line.split()[0].split("-"))
            with open("/proc/self/mem", "rb", buffering=0) as memory:
                memory.seek(start)
                return memory.read(end - start)
    return b""


def link_files(folder):
    """The mapped files by base name."""
    (folder / "vdso.so").write_bytes(own_vdso())
    for line in (folder / "maps.txt").read_text().splitlines():
        field = line.split(None, 5)
        if len(field) > 5 and field[5].startswith("/"):
            link = folder / Path(field[5]).name
            if not link.exists():
                link.symlink_to(field[5])


def write_samples(folder):
    """samples.bin, as unwind_bench.cpp reads it; how many there are."""
    count = 0
    with open(folder / "samples.bin", "wb") as file:
        for sample in perf_data.samples(folder / "perf.data"):
            file.write(struct.pack("<17QQ", *(sample.registers[name] for name in DWARF_ORDER),
                                   len(sample.stack)))
            file.write(sample.stack)
            count += 1
    return count


def write_stack(sample, base, folder):
    """A folder for `uprobectl debug-unwind`, with the maps and files of another one."""
    folder.mkdir()
    (folder / "regs.txt").write_text(
        "".join(f"{name}: {sample.registers[name]:x}\n" for name in DWARF_ORDER))
    (folder / "stack.data").write_bytes(struct.pack("<Q", sample.registers["rsp"]) + sample.stack)
    shutil.copy(base / "maps.txt", folder)
    link_files(folder)


def perf_frames(folder):
    """{time in ns: [(ELF address, name, offset in it, file)]} as perf unwinds them; "" and -1 for a frame
    without a symbol."""
    text = subprocess.run(
        ["perf", "script", "--no-inline", "--ns", "-F", "time,ip,sym,symoff,dso", "-i", folder / "perf.data"],
        capture_output=True, text=True, timeout=300).stdout
    stacks = {}
    frames = []
    for line in text.splitlines():
        if match := re.match(r"\s*(\d+)\.(\d{9}):\s*$", line):
            frames = stacks.setdefault(int(match[1]) * 10**9 + int(match[2]), [])
        elif match := re.match(r"\s+([0-9a-f]+) (.*)\+0x([0-9a-f]+) \(([^()]*)\)$", line):
            frames.append((int(match[1], 16), match[2], int(match[3], 16), match[4]))
        elif match := re.match(r"\s+([0-9a-f]+) \[unknown\] \(([^()]*)\)$", line):
            frames.append((int(match[1], 16), "", -1, match[2]))
    return stacks


def processor_seconds(command):
    """User and system time of a command, and what it prints."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    text = process.stdout.read()
    _, _, usage = os.wait4(process.pid, 0)
    return usage.ru_utime + usage.ru_stime, text
