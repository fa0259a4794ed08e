#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures `uprobectl attach` against bpftrace on the same functions of a program made for it.

    tools/bench_attach.py [--binary build/src/cli/uprobectl] [--json] [QUESTION…]

Needs root, bpftrace, gcc and clang-19. Every probe is in the program that this makes and starts, and
every run has a time limit. Questions: events a second, text and JSON into a pipe, at three times the
rate up to which bpftrace loses nothing; 10,000 functions at once; 5,000 functions counted at once;
attaching and detaching 500 functions; what counting a call, measuring an argument and measuring a
latency cost in the kernel beyond a program that does nothing.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import bench_cost
from bench_target import LIMIT, SECONDS, Failed, Target, Tracer, calls_of, make_program
from measure import peak_kilobytes

ROOT = Path(__file__).resolve().parent.parent


def fail(text):
    sys.exit(f"tools/bench_attach.py: error: {text}")


def timed(argv):
    """Seconds of a command that must succeed."""
    start = time.perf_counter()
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                               env={**os.environ, "BPFTRACE_MAX_PROBES": "20000"})
    said = process.stderr.read()
    if process.wait(LIMIT) != 0:
        raise Failed(f"{' '.join(argv)}: {said.strip()}")
    return time.perf_counter() - start


class Questions:
    def __init__(self, binary, bpftrace, path, empty):
        self.binary, self.bpftrace, self.path, self.empty = binary, bpftrace, path, empty

    def traced(self, argv, ready, line, rate, threads):
        """Calls at a rate under a tracer: calls made, how many of them are missing, its messages."""
        with Target(self.path) as target, Tracer(argv, ready, target) as tracer:
            calls = target.ask(f"rate {rate / threads} {threads}")
            time.sleep(1)
            tracer.end()
            return calls, calls - tracer.output().count(line), tracer.messages()

    def bpftrace_calls(self, rate, threads):
        script = (f'BEGIN {{ printf("ready\\n") }} uprobe:{self.path}:hot /pid == PID/ '
                  '{ printf("%llu %d %d %s hot %llx %llx %llx %llx %llx %llx\\n", '
                  "nsecs, pid, tid, comm, arg0, arg1, arg2, arg3, arg4, arg5) }")
        return self.traced([self.bpftrace, "-e", script], "ready", " hot ", rate, threads)[:2]

    def uprobectl_calls(self, rate, threads, *options, line):
        calls, missing, said = self.traced(
            [self.binary, "attach", "-d", "60s", "-p", "PID", *options, self.path, "hot"],
            "probing", line, rate, threads)
        if int(re.search(r", (\d+) lost,", said).group(1)) != missing:
            raise Failed(f"{missing} of {calls} lines are missing, and it says: {said}")
        return calls, missing

    def events(self):
        """bpftrace's highest rate without loss; then ours at three times that, or at what the machine
        gives with a thread on each processor."""
        rate, best = 4_000, 0
        while rate < 2_000_000:
            calls, missing = self.bpftrace_calls(rate, 1)
            if missing or calls / SECONDS < best * 1.05:
                break  # it loses, or calls come no faster
            best, rate = calls / SECONDS, rate * 1.5
        alone, alone_missing = self.bpftrace_calls(1e9, os.cpu_count())
        result = {"bpftrace_loss_free_rate": round(best)}
        for prefix, options, line in (("", [], "\thot\t"), ("json_", ["--json"], '"type":"event"')):
            calls, missing = self.uprobectl_calls(best * 3, os.cpu_count(), *options, line=line)
            result |= {f"{prefix}uprobectl_rate": round(calls / SECONDS),
                       f"{prefix}ratio": round(calls / SECONDS / best, 2), f"{prefix}missing": missing}
        return result | {"bpftrace_at_full_speed": round(alone / SECONDS),
                         "bpftrace_missing_there": alone_missing}

    def attach_500(self):
        # f1000 to f1499. bpftrace ends itself once all are attached.
        ours = timed([self.binary, "attach", "-q", "-d", "1ms", self.path, "f1[0-4]??"])
        theirs = timed([self.bpftrace, "-e",
                        f"uprobe:{self.path}:f10*,uprobe:{self.path}:f11*,uprobe:{self.path}:f12*,"
                        f"uprobe:{self.path}:f13*,uprobe:{self.path}:f14* {{ @++ }} "
                        "interval:ms:1 { exit(); }"])
        return {"uprobectl_seconds": round(ours, 3), "bpftrace_seconds": round(theirs, 3),
                "ratio": round(ours / theirs, 4)}

    def attach_10000(self):
        command = [self.binary, "attach", "-q", "-d", "1ms", "--mechanism", "multi", self.path]
        many, one = timed([*command, "f[0-9]*"]), timed([*command, "f1"])
        return {"seconds": round(many, 3), "against_one": round(many / one, 2),
                "peak_kilobytes": peak_kilobytes([*command, "f[0-9]*"]),
                "peak_kilobytes_of_one": peak_kilobytes([*command, "f1"])}

    def count_5000(self):
        """f1000 to f5999, each called so often as is known."""
        command = [self.binary, "attach", "-j", "--count", "--mechanism", "multi"]
        with Target(self.path) as target, \
                Tracer([*command, "-d", "60s", "-p", "PID", self.path, "f[1-5]???"], "probing",
                       target) as tracer:
            calls = target.ask("each 1000 5999")
            tracer.end()
            records = [json.loads(line) for line in tracer.output().splitlines()]
        counted = {record["symbol"]: record["count"] for record in records if record["type"] == "count"}
        expected = {f"f{number}": calls_of(number) for number in range(1000, 6000)}
        many, one = (timed([*command, "-d", "1ms", self.path, what]) for what in ("f[1-5]???", "f1"))
        return {"calls": calls, "counted": sum(counted.values()),
                "wrong_counts": sum(counted.get(name) != count for name, count in expected.items()),
                "seconds": round(many, 3), "against_one": round(many / one, 2)}

    def cost(self, name):
        with bench_cost.statistics_enabled():
            return bench_cost.question(name, self.binary, self.bpftrace, self.path, self.empty)


def main():
    asked = ("events", "attach_10000", "count_5000", "attach_500",
             *(f"cost_{name}" for name in bench_cost.QUESTIONS))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default=str(ROOT / "build/src/cli/uprobectl"))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("questions", nargs="*", metavar="QUESTION",
                        help=f"only these, of {', '.join(asked)}")
    options = parser.parse_args()
    for name in options.questions:
        if name not in asked:
            parser.error(f"'{name}' is no question")
    if os.geteuid() != 0:
        fail("needs root")
    bpftrace = shutil.which("bpftrace") or fail("no bpftrace here")
    with tempfile.TemporaryDirectory(prefix="uprobectl-bench-") as folder:
        questions = Questions(options.binary, bpftrace, make_program(folder), bench_cost.make_empty(folder))
        for name in options.questions or asked:
            try:
                answer = (questions.cost(name.removeprefix("cost_")) if name.startswith("cost_")
                          else getattr(questions, name)())
            except Failed as error:
                fail(error)
            record = {"type": "benchmark", "question": name, **answer}
            print(json.dumps(record) if options.json else
                  f"{name}\n" + "\n".join(f"  {key:24} {value}" for key, value in record.items()
                                          if key not in ("type", "question")), flush=True)


main()
