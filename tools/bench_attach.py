#!/usr/bin/env python3
"""Measures `uprobectl attach` against bpftrace on the same functions of a program made for it.

    tools/bench_attach.py [--binary build/src/cli/uprobectl] [--json]

Needs root, bpftrace and a C compiler. Every probe is in the program that this makes and starts, and
every run has a time limit. Questions: attaching and detaching 500 functions; events a second, text
into a pipe, at three times the rate up to which bpftrace loses nothing; 10,000 functions at once.
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

from measure import peak_kilobytes

ROOT = Path(__file__).resolve().parent.parent
FUNCTIONS = 10_000
SECONDS = 2  # of calls at each rate
LIMIT = 300  # seconds for any command

# f0 … f9999 do different things, so that nobody folds them; `hot` is called at a steady rate.
PROGRAM = """
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
%(functions)s
__attribute__((noinline)) long hot(long a, long b, long c, long d, long e, long f) {
  __asm__ volatile("" ::: "memory");
  return a + b + c + d + e + f;
}
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}
static double rate; /* of each thread */
static long calls[16];
static void* make_calls(void* slot) {
  double begin = now(), passed = 0;
  long made = 0;
  while ((passed = now() - begin) < %(seconds)d)
    for (long due = (long)(passed * rate); made < due && now() - begin < %(seconds)d; made++)
      hot(made, 1, 2, 3, 4, 5);
  *(long*)slot = made;
  return NULL;
}
int main(void) {
  char line[64];
  int threads = 1;
  pthread_t thread[16];
  puts("ready");
  fflush(stdout);
  if (!fgets(line, sizeof line, stdin) || sscanf(line, "%%lf %%d", &rate, &threads) != 2) return 0;
  for (int i = 0; i < threads; i++) pthread_create(&thread[i], NULL, make_calls, &calls[i]);
  long sum = 0;
  for (int i = 0; i < threads; i++) {
    pthread_join(thread[i], NULL);
    sum += calls[i];
  }
  printf("called %%ld\\n", sum);
  fflush(stdout);
  fgets(line, sizeof line, stdin);
  return 0;
}
"""


def fail(text):
    sys.exit(f"tools/bench_attach.py: error: {text}")


def make_program(folder):
    functions = "\n".join(
        f'__attribute__((noinline, used)) int f{i}(int x) {{ __asm__ volatile(""); return x + {i}; }}'
        for i in range(FUNCTIONS))
    source = folder / "target.c"
    source.write_text(PROGRAM % {"functions": functions, "seconds": SECONDS})
    subprocess.run(["gcc", "-O1", "-fno-omit-frame-pointer", "-fcf-protection=none", "-pthread", "-o", folder / "target", source], check=True)
    return str(folder / "target")


class Target:
    """The program, running."""

    def __init__(self, path):
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"

    def call(self, rate, threads):
        """As many as come about: a probe may cost more than the rate allows."""
        self.process.stdin.write(f"{rate / threads} {threads}\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline().split()[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def timed(argv):
    """Seconds of a command that must succeed."""
    start = time.perf_counter()
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                               env={**os.environ, "BPFTRACE_MAX_PROBES": "20000"})
    said = process.stderr.read()
    if process.wait(LIMIT) != 0:
        fail(f"{' '.join(argv)}: {said.strip()}")
    return time.perf_counter() - start


def traced(argv, ready, rate, threads, path):
    """Calls at a rate under a tracer that writes into a pipe: calls made, lines that came, its stderr."""
    with Target(path) as target, tempfile.TemporaryFile() as lines, tempfile.TemporaryFile() as said:
        argv = [word.replace("PID", str(target.process.pid)) for word in argv]
        tracer = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=said)
        reader = subprocess.Popen(["cat"], stdin=tracer.stdout, stdout=lines)
        tracer.stdout.close()
        deadline = time.monotonic() + 30
        while not ready(lines, said):
            if time.monotonic() > deadline or tracer.poll() is not None:
                fail(f"{argv[0]} does not start: {read(said)}")
            time.sleep(0.05)
        calls = target.call(rate, threads)
        time.sleep(1)
        tracer.terminate()
        tracer.wait(LIMIT)
        reader.wait(LIMIT)
        return calls, read(lines).count(" hot " if "bpftrace" in argv[0] else "\thot\t"), read(said)


def read(file):
    file.seek(0)
    return file.read().decode(errors="replace")


class Questions:
    def __init__(self, binary, bpftrace, path):
        self.binary, self.bpftrace, self.path = binary, bpftrace, path

    def attach_500(self):
        # f1000 to f1499. bpftrace ends itself once all are in place.
        ours = timed([self.binary, "attach", "-q", "-d", "1ms", self.path, "f1[0-4]??"])
        theirs = timed([self.bpftrace, "-e",
                           f"uprobe:{self.path}:f10*,uprobe:{self.path}:f11*,uprobe:{self.path}:f12*,"
                           f"uprobe:{self.path}:f13*,uprobe:{self.path}:f14* {{ @++ }} "
                           "interval:ms:1 { exit(); }"])
        return {"uprobectl_seconds": round(ours, 3), "bpftrace_seconds": round(theirs, 3),
                "ratio": round(ours / theirs, 4)}

    def bpftrace_calls(self, rate, threads):
        """Calls, and how many of them are missing in what came out."""
        script = (f'BEGIN {{ printf("ready\\n") }} uprobe:{self.path}:hot /pid == PID/ '
                  '{ printf("%llu %d %d %s hot %llx %llx %llx %llx %llx %llx\\n", '
                  "nsecs, pid, tid, comm, arg0, arg1, arg2, arg3, arg4, arg5) }")
        calls, lines, said = traced([self.bpftrace, "-e", script],
                                    lambda out, _: "ready" in read(out), rate, threads, self.path)
        return calls, calls - lines

    def uprobectl_calls(self, rate, threads):
        calls, lines, said = traced(
            [self.binary, "attach", "-d", "60s", "-p", "PID", self.path, "hot"],
            lambda _, err: "probing" in read(err), rate, threads, self.path)
        if int(re.search(r", (\d+) lost,", said).group(1)) != calls - lines:
            fail(f"{calls} calls, {lines} lines, and it says: {said}")
        return calls, calls - lines

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
        calls, missing = self.uprobectl_calls(best * 3, os.cpu_count())
        return {"bpftrace_loss_free_rate": round(best), "uprobectl_rate": round(calls / SECONDS),
                "ratio": round(calls / SECONDS / best, 2), "missing": missing,
                "bpftrace_at_full_speed": round(alone / SECONDS),
                "bpftrace_missing_there": alone_missing}

    def attach_10000(self):
        command = [self.binary, "attach", "-q", "-d", "1ms", "--mechanism", "multi", self.path]
        many, one = timed([*command, "f[0-9]*"]), timed([*command, "f1"])
        return {"seconds": round(many, 3), "against_one": round(many / one, 2),
                "peak_kilobytes": peak_kilobytes([*command, "f[0-9]*"]),
                "peak_kilobytes_of_one": peak_kilobytes([*command, "f1"])}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default=str(ROOT / "build/src/cli/uprobectl"))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if os.geteuid() != 0:
        fail("needs root")
    bpftrace = shutil.which("bpftrace") or fail("no bpftrace here")
    with tempfile.TemporaryDirectory(prefix="uprobectl-bench-") as folder:
        questions = Questions(options.binary, bpftrace, make_program(Path(folder)))
        for name in ("events", "attach_10000", "attach_500"):
            record = {"type": "benchmark", "question": name, **getattr(questions, name)()}
            print(json.dumps(record) if options.json else
                  f"{name}\n" + "\n".join(f"  {key:24} {value}" for key, value in record.items()
                                          if key not in ("type", "question")), flush=True)


main()
