# SPDX-License-Identifier: Apache-2.0
"""What programs cost beyond an empty one, by the kernel's own statistics (BPF_ENABLE_STATS, Linux 5.8):
nanoseconds a call of the probed function, entry and return together."""

import contextlib
import ctypes
import os
import platform
import re
import statistics
import subprocess
import time
from pathlib import Path

from bench_target import Failed, Target, Tracer

ROUNDS = 7
CALLS = 200_000  # in each round
GOAL = 0.5  # of bpftrace's cost
# linux/bpf.h; the number of bpf(2) in asm/unistd.h
BPF_ENABLE_STATS, BPF_STATS_RUN_TIME = 32, 0
BPF_CALL = {"x86_64": 321, "aarch64": 280}

EMPTY = """
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
SEC("uprobe") int entry(void* context) { return 0; }
SEC("uretprobe") int back(void* context) { return 0; }
char LICENSE[] SEC("license") = "GPL";
"""

# What is asked, ours, bpftrace's, and whether returns are probed, too.
START_MAP = ("uprobe:PATH:hot { @start[tid] = nsecs; } "
             "uretprobe:PATH:hot /@start[tid]/ { @ = hist(nsecs - @start[tid]); delete(@start[tid]); }")
QUESTIONS = {
    "count": (["--count"], "uprobe:PATH:hot { @ = count(); }", False),
    "histogram_of_argument": (["--histogram", "--measure", "arg0"], "uprobe:PATH:hot { @ = hist(arg0); }",
                              False),
    "histogram_of_latencies": (["--histogram", "--return-at", "trampoline"], START_MAP, True),
}


@contextlib.contextmanager
def statistics_enabled():
    """As long as a descriptor of them is open: nothing is left on, however this ends."""
    libc = ctypes.CDLL(None, use_errno=True)
    kind = ctypes.c_uint32(BPF_STATS_RUN_TIME)
    descriptor = libc.syscall(BPF_CALL[platform.machine()], BPF_ENABLE_STATS, ctypes.byref(kind),
                              ctypes.sizeof(kind))
    if descriptor < 0:
        raise Failed(f"no statistics of BPF programs: {os.strerror(ctypes.get_errno())}")
    try:
        yield
    finally:
        os.close(descriptor)


def make_empty(folder):
    source, result = Path(folder) / "empty.bpf.c", Path(folder) / "empty.bpf.o"
    source.write_text(EMPTY)
    multiarch = subprocess.run(["gcc", "-print-multiarch"], capture_output=True, text=True, check=True)
    subprocess.run(["clang-19", "-target", "bpf", "-O2", "-g", "-idirafter",
                    f"/usr/include/{multiarch.stdout.strip()}", "-c", source, "-o", result], check=True)
    return str(result)


def program_runs(pid):
    """Runs and nanoseconds of each BPF program that a process holds."""
    found = {}
    for info in Path(f"/proc/{pid}/fdinfo").iterdir():
        with contextlib.suppress(FileNotFoundError):
            fields = dict(re.findall(r"^(\w+):\s*(\d+)$", info.read_text(), re.MULTILINE))
            if "run_cnt" in fields:
                found[fields["prog_id"]] = (int(fields["run_cnt"]), int(fields["run_time_ns"]))
    return found


def cost(argv, ready, path, sides):
    """Nanoseconds a call in the programs of a tool, which must have run once for each side of a call."""
    with Target(path) as target, Tracer(argv, ready, target) as tracer:
        # bpftrace says that it is ready once probes are attached, perhaps a little early.
        time.sleep(0.2)
        target.ask("exactly 1000")  # to warm up
        before = program_runs(tracer.process.pid)
        calls = target.ask(f"exactly {CALLS}")
        after = program_runs(tracer.process.pid)
    runs = sum(after[each][0] - before.get(each, (0, 0))[0] for each in after)
    if runs != calls * sides:
        raise Failed(f"{argv[0]}: {runs} runs of programs for {calls} calls")
    return sum(after[each][1] - before.get(each, (0, 0))[1] for each in after) / calls


def question(name, binary, bpftrace, path, empty):
    options, script, pairs = QUESTIONS[name]
    attach = [binary, "attach", "-d", "5m", "-p", "PID"]
    script = script.replace("PATH", path)
    tools = {
        "empty": ([*attach, "--object", empty, "--program-name", "entry", path, "hot"], "probing"),
        "uprobectl": ([*attach, *options, path, "hot"], "probing"),
        "bpftrace": ([bpftrace, "-p", "PID", "-e", 'BEGIN { printf("ready\\n"); } ' + script], "ready"),
    }
    if pairs:
        tools["empty_return"] = ([*attach, "--object", empty, "--program-name", "back", path, "hot"],
                                 "probing")
    rounds = []
    for _ in range(ROUNDS):  # in turn: what else runs on the machine meets all of them
        took = {tool: cost(argv, ready, path, 2 if pairs and not tool.startswith("empty") else 1)
                for tool, (argv, ready) in tools.items()}
        took["empty"] += took.pop("empty_return", 0)
        rounds.append(took)
    nothing, ours, theirs = (statistics.median(each[tool] for each in rounds)
                             for tool in ("empty", "uprobectl", "bpftrace"))
    ratios = [(each["uprobectl"] - each["empty"]) / (each["bpftrace"] - each["empty"]) for each in rounds]
    return {"empty_ns": round(nothing, 1), "uprobectl_ns_beyond": round(ours - nothing, 1),
            "bpftrace_ns_beyond": round(theirs - nothing, 1),
            "ratio": round(statistics.median(ratios), 3), "ratio_min": round(min(ratios), 3),
            "ratio_max": round(max(ratios), 3), "rounds": ROUNDS, "goal": GOAL}
