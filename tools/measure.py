# SPDX-License-Identifier: Apache-2.0
"""Measures one process run: time, page faults, instructions, peak memory. Linux, x86-64 and arm64."""

import ctypes
import os
import re
import shutil
import signal
import statistics
import subprocess
import time
from dataclasses import dataclass

# linux/ptrace.h
PTRACE_CONT, PTRACE_SEIZE = 7, 0x4206
PTRACE_O_TRACEEXIT, PTRACE_EVENT_EXIT = 0x40, 6


@dataclass
class Run:
    seconds: float
    cpu_seconds: float  # user and system: hardly changed by what else runs on the machine
    page_faults: int
    status: int


def once(argv):
    """One run without stdin and stdout. posix_spawn: what Python itself adds is small and constant."""
    actions = [(os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
               (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)]
    start = time.perf_counter()
    pid = os.posix_spawn(argv[0], argv, {"PATH": os.defpath, "LC_ALL": "C"}, file_actions=actions)
    _, status, usage = os.wait4(pid, 0)
    seconds = time.perf_counter() - start
    return Run(seconds, usage.ru_utime + usage.ru_stime, usage.ru_minflt + usage.ru_majflt,
               os.waitstatus_to_exitcode(status))


def failure_of(argv):
    """Why a command fails, or None: what fails quickly must not win."""
    result = subprocess.run(argv, capture_output=True, text=True)
    return result.stderr.strip() or f"exit status {result.returncode}" if result.returncode else None


def paired(first, second, pairs):
    """The ratio of times first / second, over pairs run in turn, after one pair to warm up."""
    ratios = []
    for number in range(pairs + 1):
        if number % 2:  # who goes first must not matter
            b, a = once(second), once(first)
        else:
            a, b = once(first), once(second)
        ratios.append(a.seconds / b.seconds)
    ratios = ratios[1:]
    return {"median": round(statistics.median(ratios), 3), "min": round(min(ratios), 3),
            "max": round(max(ratios), 3), "pairs": pairs}


def milliseconds_above(argv, base, pairs):
    """How much more processor time a command takes than another: the median over pairs run in turn."""
    differences = []
    for number in range(pairs + 1):
        first, second = once(argv), once(base)
        if number:
            differences.append(first.cpu_seconds - second.cpu_seconds)
    return round(statistics.median(differences) * 1000, 2)


def instructions(argv, folder):
    """Instructions executed in user space, or None without valgrind."""
    valgrind = shutil.which("valgrind")
    if not valgrind:
        return None
    command = [valgrind, "--tool=callgrind", f"--callgrind-out-file={folder}/callgrind", *argv]
    result = subprocess.run(command, capture_output=True, text=True)
    collected = re.search(r"Collected\s*:\s*(\d+)", result.stderr)
    return int(collected[1]) if collected else None


def peak_kilobytes(argv):
    """The most memory resident at once (VmHWM), or None where tracing is not permitted.

    Not ru_maxrss: that one counts what the process was before its exec, a copy of this Python.
    The shell stops itself before it becomes the command; the kernel stops the command once more
    just before it ends, while /proc still tells its memory.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
    child = subprocess.Popen(["/bin/sh", "-c", 'kill -STOP $$; exec "$0" "$@"', *argv],
                             stdout=subprocess.DEVNULL)
    os.waitpid(child.pid, os.WUNTRACED)
    traced = libc.ptrace(PTRACE_SEIZE, child.pid, None, PTRACE_O_TRACEEXIT) == 0
    os.kill(child.pid, signal.SIGCONT)
    peak = None
    while traced:
        _, status = os.waitpid(child.pid, 0)
        if not os.WIFSTOPPED(status):
            child.returncode = os.waitstatus_to_exitcode(status)
            return peak
        if status >> 16 == PTRACE_EVENT_EXIT:
            with open(f"/proc/{child.pid}/status") as text:
                peak = int(re.search(r"VmHWM:\s*(\d+)", text.read())[1])
        # A stop for a signal is followed by that signal, except the stop we asked for.
        number = os.WSTOPSIG(status)
        deliver = number if status >> 16 == 0 and number not in {signal.SIGSTOP, signal.SIGTRAP} else 0
        libc.ptrace(PTRACE_CONT, child.pid, None, deliver)
    child.wait()
    return peak
