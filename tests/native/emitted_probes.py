#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""emitted_probes.py UPROBECTL PROBES
Lines of `usdt list --emit`, used: in tracefs' uprobe_events of this kernel, by bpftrace and perf if they are there,
and compiled against libbpf. The program PROBES passes its static probes a known number of times with known arguments
(fixtures/workload/probe_sites.c), and says how often its guarded probe was passed. Needs root and tracefs. Prints
TAP."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap

UPROBECTL = str(Path(sys.argv[1]).resolve())
TAP = Tap()
TRACEFS = Path("/sys/kernel/tracing")
CALLS = 3
WORD = 1 << 64


def emit(tool, program, *words):
    done = subprocess.run([UPROBECTL, "usdt", "list", "--emit", tool, *words, program, "shop"], capture_output=True,
                          text=True, timeout=60)
    return done.stdout.splitlines(), done.stderr


def run_program(program):
    text = subprocess.run([program, "--calls", str(CALLS)], capture_output=True, text=True, check=True,
                          timeout=60).stdout
    return int(re.search(r"^guarded (\d+)$", text, re.M)[1])


def expected_arguments():
    """event -> the arguments of each call, as probe_sites.c passes them; addresses of texts are left out."""
    calls = range(1, CALLS + 1)
    wholes = [0xfedcba9876548180 + n for n in calls]
    starts = [[(-n, 1000 + n) for n in calls], [(-7, WORD - 2) for n in calls], [(2 * n, 3 * n) for n in calls],
              [(4 * n, 5 * n) for n in calls]]
    parts = [((w & 0xff) - 256, (w & 0xffff) - 0x10000, w & 0xffffffff, w - WORD) for w in wholes]
    return starts, parts, [[n for n in calls], [-n for n in calls]]


def define(line):
    """Adds to the events. Python's own mode for that seeks, which the kernel refuses."""
    events = os.open(TRACEFS / "uprobe_events", os.O_WRONLY | os.O_APPEND)
    try:
        os.write(events, line.encode() + b"\n")
    except OSError as error:
        raise RuntimeError(f"{line}: {error}") from None
    finally:
        os.close(events)


def traced(program, lines):
    """{event: [{argument: number}]} of a run, and how often the program passed its guarded probe. The events are in
    an instance of their own, and gone at the end."""
    names = [re.match(r"p:(uprobectl)/(\S+) ", line)[2] for line in lines]
    instance = TRACEFS / "instances" / f"uprobectl-test-{os.getpid()}"
    instance.mkdir()
    defined = []
    try:
        for name, line in zip(names, lines):
            define(line)
            defined.append(name)
        for name in names:
            (instance / "events/uprobectl" / name / "enable").write_text("1")
        guarded = run_program(program)
        text = (instance / "trace").read_text()
        for name in names:
            (instance / "events/uprobectl" / name / "enable").write_text("0")
    finally:
        instance.rmdir()
        for name in defined:
            define(f"-:uprobectl/{name}")
    hits = defaultdict(list)
    for name, arguments in re.findall(r": (\w+): \(0x[0-9a-f]+\)(.*)$", text, re.M):
        hits[name].append({key: int(value, 0) for key, value in re.findall(r"(\w+)=(\S+)", arguments)})
    return hits, guarded


def check_tracefs(program):
    lines, messages = emit("tracefs", program)
    hits, guarded = traced(program, lines)
    problems = [] if guarded == CALLS else [f"the program passed its guarded probe {guarded} times"]
    starts, parts, numbers = expected_arguments()
    found = [[(hit["arg0"], hit["arg1"]) for hit in each] for name, each in hits.items()
             if name.startswith("shop_order__start") and "arg0" in each[0]]
    problems += [f"order__start: {each} is missing in {found}" for each in starts if each not in found]
    said = [tuple(hit[f"arg{i}"] for i in range(1, 5)) for hit in hits["shop_parts"]]
    if said != parts:
        problems.append(f"parts: {said}, expected {parts}")
    found = [[hit["arg0"] for hit in each] for name, each in hits.items() if name.startswith("shop_guarded")]
    if sorted(found) != sorted(numbers):
        problems.append(f"guarded: {found}")
    if len(hits) != len(lines) or any(len(each) != CALLS for each in hits.values()):
        problems.append(f"{len(lines)} lines, hits: { {name: len(each) for name, each in hits.items()} }")
    TAP.check("tracefs: each line is hit, with the program's arguments, and the semaphore is incremented", problems)
    left = re.findall(r"cannot read the argument '([^']*)'", messages)
    TAP.check("tracefs: elements of tables, vectors and higher parts of registers are left out, with a warning",
              [] if {text.split("@")[0] for text in left} >= {"-4", "8f", "1"} and "1@%ah" in " ".join(left)
              or any(re.fullmatch(r"1@%[abcd]h", text) for text in left) else [messages])


def check_perf(program):
    title = "perf: probes without a semaphore are those of tracefs, the other is refused"
    if not shutil.which("perf"):
        return TAP.skip(title, "no perf on this machine")
    lines, messages = emit("perf", program)
    wanted = [line for line in emit("tracefs", program)[0] if "shop_guarded" not in line]
    problems = [] if "has a semaphore" in messages else [messages]
    found = []
    for line in lines:
        # -D: perf prints the definition and does not make it.
        shown = subprocess.run(["sh", "-c", line.replace(" -a ", " -D ", 1)], capture_output=True,
                               text=True, timeout=60)
        found += [re.sub(r":0x0*", ":0x", text) for text in shown.stdout.splitlines()]
        if shown.returncode:
            problems.append(f"{line}: {shown.stderr}")
    def fields(line):
        head, *arguments = line.split()
        return head, *[argument.lower() for argument in arguments]
    problems += [f"not defined: {line}; {found}" for line in wanted if fields(line) not in map(fields, found)]
    TAP.check(title, problems)


def check_bpftrace(program):
    title = "bpftrace: one line for each name counts and prints what the program passes"
    if not shutil.which("bpftrace"):
        return TAP.skip(title, "no bpftrace on this machine")
    lines, _ = emit("bpftrace", program)
    # bcc does not parse the arguments of others ("1@%ah", "8f@%xmm0"), and says so of each.
    wanted = [line for line in lines if "shop:order__done" in line or "shop:guarded" in line]
    done = subprocess.run(["bpftrace", "-q", "-e", "\n".join(wanted), "-c", f"{program} --calls {CALLS}"],
                          capture_output=True, text=True, timeout=120)
    names = re.findall(r"(shop:\w+)", done.stdout)
    numbers = sorted(int(number) for number in re.findall(r"shop:guarded (-?\d+)", done.stdout))
    problems = [] if names.count("shop:order__done") == CALLS else [done.stdout + done.stderr]
    if numbers != sorted(n for each in expected_arguments()[2] for n in each):
        problems.append(f"guarded: {numbers}")
    if len(lines) != len({line.split()[0] for line in lines}):
        problems.append("a name has several lines")
    TAP.check(title, problems)


def check_libbpf(program, folder):
    lines, _ = emit("libbpf", program)
    if not Path("/usr/include/bpf/libbpf.h").exists() or not shutil.which("gcc"):
        return TAP.skip("libbpf: the lines compile", "no libbpf or gcc on this machine")
    source = folder / "lines.c"
    source.write_text("#include <bpf/libbpf.h>\nvoid f(struct bpf_program *prog) {\n" + "\n".join(lines) + "\n}\n")
    done = subprocess.run(["gcc", "-Wall", "-Werror", "-fsyntax-only", source], capture_output=True, text=True,
                          timeout=60)
    guarded = [line for line in lines if ".ref_ctr_offset = 0x" in line]
    TAP.check("libbpf: the lines compile, those of the guarded probe with the semaphore's offset",
              [done.stderr] * bool(done.returncode) + (["lines of semaphores"] if len(guarded) != 2 else []))


def main():
    if os.geteuid() == 0 and not (TRACEFS / "uprobe_events").exists() and "HAS_TRACEFS" not in os.environ:
        # In a mount namespace of its own, so that nothing is left of it.
        script = 'mount -t tracefs tracefs /sys/kernel/tracing; exec "$@"'
        os.execvpe("unshare", ["unshare", "-m", "sh", "-c", script, "sh", sys.executable, *sys.argv], {**os.environ, "HAS_TRACEFS": ""})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = shutil.copy(sys.argv[2], folder / "probes")
        if os.geteuid() != 0 or not (TRACEFS / "uprobe_events").exists():
            TAP.skip("tracefs", "needs root and tracefs")
        else:
            check_tracefs(program)
        check_perf(program)
        check_bpftrace(program)
        check_libbpf(program, folder)
        lines, _ = emit("tracefs", program, "--device-path", "/data/app/probes")
        TAP.check("the lines have the path on the device",
                  [line for line in lines if not re.match(r"p:uprobectl/\w+ /data/app/probes:0x", line)]
                  or (["no lines"] if not lines else []))
    TAP.done()


main()
