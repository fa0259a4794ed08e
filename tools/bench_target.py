# SPDX-License-Identifier: Apache-2.0
"""The program that tools/bench_attach.py puts probes on: ten thousand functions, and calls in known numbers."""

import os
import re
import subprocess
import tempfile
import time
from pathlib import Path

FUNCTIONS = 10_000
SECONDS = 2  # of calls at each rate
LIMIT = 300  # seconds for any command

# f0 … f9999 do different things, so that nobody folds them. Reads commands, a line each, and says how
# many calls it has made: `rate R T` of hot, R a second in each of T threads; `exactly N` of hot;
# `each A B`: of fA to fB, fN so often as calls_of() says.
PROGRAM = """
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
%(functions)s
static int (*const all[])(int) = {%(names)s};
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
  puts("ready");
  fflush(stdout);
  while (fgets(line, sizeof line, stdin)) {
    int threads = 1, first = 0, last = 0;
    long exactly = 0, sum = 0;
    pthread_t thread[16];
    if (sscanf(line, "rate %%lf %%d", &rate, &threads) == 2) {
      for (int i = 0; i < threads; i++) pthread_create(&thread[i], NULL, make_calls, &calls[i]);
      for (int i = 0; i < threads; i++) {
        pthread_join(thread[i], NULL);
        sum += calls[i];
      }
    } else if (sscanf(line, "exactly %%ld", &exactly) == 1) {
      /* Arguments of all sizes below a million, as if by chance. */
      for (; sum < exactly; sum++) hot(sum * 7919 & 1048575, 1, 2, 3, 4, 5);
    } else if (sscanf(line, "each %%d %%d", &first, &last) == 2) {
      for (int n = first; n <= last; n++)
        for (int i = 0; i < n %% 7 + 1; i++, sum++) all[n](i);
    } else {
      return 1;
    }
    printf("called %%ld\\n", sum);
    fflush(stdout);
  }
  return 0;
}
"""


def calls_of(number):
    """How often `each` calls the function of this number."""
    return number % 7 + 1


def make_program(folder):
    functions = "\n".join(
        f'__attribute__((noinline, used)) int f{i}(int x) {{ __asm__ volatile(""); return x + {i}; }}'
        for i in range(FUNCTIONS))
    source = Path(folder) / "target.c"
    source.write_text(PROGRAM % {"functions": functions, "seconds": SECONDS,
                                 "names": ", ".join(f"f{i}" for i in range(FUNCTIONS))})
    subprocess.run(["gcc", "-O1", "-fno-omit-frame-pointer", "-fcf-protection=none", "-pthread",
                    "-o", Path(folder) / "target", source], check=True)
    return str(Path(folder) / "target")


class Target:
    """The program, running."""

    def __init__(self, path):
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"

    def ask(self, command):
        """The calls made: for a rate so many as come about, a probe may cost more than it allows."""
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline().split()[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


class Failed(Exception):
    pass


class Tracer:
    """A tool on a target, from when it is ready until it is asked to end."""

    def __init__(self, argv, ready, target):
        self.lines, self.said = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        self.name = argv[0]
        argv = [word.replace("PID", str(target.process.pid)) for word in argv]
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=self.said)
        # A pipe, which is read as fast as it can be.
        self.reader = subprocess.Popen(["cat"], stdin=self.process.stdout, stdout=self.lines)
        self.process.stdout.close()
        deadline = time.monotonic() + 60
        while not re.search(ready, self.output() + self.messages()):
            if time.monotonic() > deadline or self.process.poll() is not None:
                self.end()
                raise Failed(f"{self.name} does not start: {self.messages()}")
            time.sleep(0.05)

    def output(self):
        return _read(self.lines)

    def messages(self):
        return _read(self.said)

    def end(self):
        self.process.terminate()
        self.process.wait(LIMIT)
        self.reader.wait(LIMIT)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()
        self.lines.close()
        self.said.close()


def _read(file):
    # By position: the reader goes on writing where this file description stands.
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode(errors="replace")
