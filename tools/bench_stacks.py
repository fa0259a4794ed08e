#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures how quickly stacks are unwound, named and shown, against `perf script --no-inline` on the same
stacks, in processor time and turn by turn.

    tools/bench_stacks.py [--bench build/tests/integration/unwind-bench] [--rounds 5] [--json]

Questions: twenty frames of a C++ program (fixtures/stacks/deep_calls.cpp); the same in ten copies of a
library of 110 MB (Debian's libLLVM 14): the first stack, anonymous memory, and frames a second.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
import perf_stacks

LIBRARY = Path("/usr/lib/x86_64-linux-gnu/libLLVM-14.so.1")
COPIES = 10
# Parses a few lines with each copy in turn.
LARGE_PROGRAM = r"""
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
typedef void *(*make)(void);
typedef void *(*wrap)(const char *, size_t, const char *);
typedef int (*parse)(void *, void *, void **, char **);
typedef void (*drop)(void *);
static const char text[] = "define i32 @f(i32 %a, i32 %b) {\n %c = add i32 %a, %b\n %d = mul i32 %c, 3\n ret i32 %d\n}\n";
int main(int count, char **arguments) {
  void *handles[64];
  for (int i = 1; i < count; ++i)
    if (!(handles[i] = dlopen(arguments[i], RTLD_NOW | RTLD_LOCAL))) return 1;
  const time_t end = time(NULL) + 10;
  puts("ready");
  fflush(stdout);
  while (time(NULL) < end)
    for (int i = 1; i < count; ++i) {
      void *context = ((make)dlsym(handles[i], "LLVMContextCreate"))();
      void *module = NULL;
      char *message = NULL;
      void *buffer = ((wrap)dlsym(handles[i], "LLVMCreateMemoryBufferWithMemoryRangeCopy"))(text, strlen(text), "x");
      ((parse)dlsym(handles[i], "LLVMParseIRInContext"))(context, buffer, &module, &message);
      if (module) ((drop)dlsym(handles[i], "LLVMDisposeModule"))(module);
      ((drop)dlsym(handles[i], "LLVMContextDispose"))(context);
    }
  return 0;
}
"""


def taken(command, folder, seconds=2):
    if why := perf_stacks.record(command, folder, seconds):
        sys.exit(f"tools/bench_stacks.py: error: perf: {why}")
    perf_stacks.link_files(folder)
    return perf_stacks.write_samples(folder)


def ours(bench, folder):
    text = subprocess.run([bench, folder, "1"], capture_output=True, text=True, check=True).stdout
    return {key: float(value) for key, value in map(str.split, text.splitlines())}


def perf_stacks_per_second(folder, count):
    """Without what perf needs to begin: from all stacks and from a tenth of them."""
    command = ["perf", "script", "--no-inline", "-F", "ip,sym,symoff,dso", "-i", str(folder / "perf.data")]
    all_seconds, _ = perf_stacks.processor_seconds(command)
    some_seconds, text = perf_stacks.processor_seconds([*command, "--time", "0%-10%"])
    some = sum(1 for block in text.split("\n\n") if block.strip())
    return (count - some) / (all_seconds - some_seconds)


def twenty_frames(options, folder):
    program = folder / "deep_calls"
    subprocess.run(["g++", "-std=c++20", "-O2", "-fomit-frame-pointer",
                    ROOT / "fixtures/stacks/deep_calls.cpp", "-o", program], check=True)
    count = taken([program, "10"], folder)
    ratios = []
    for _ in range(options.rounds):
        rate = ours(options.bench, folder)["stacks_per_second"]
        ratios.append(rate / perf_stacks_per_second(folder, count))
    last = ours(options.bench, folder)
    return {"type": "benchmark", "question": "twenty frames of C++", "stacks": count,
            "frames_per_stack": last["frames_per_stack"], "goal": 10,
            "times_perf": round(statistics.median(ratios), 1),
            "min": round(min(ratios), 1), "max": round(max(ratios), 1),
            "frames_per_second": round(last["stacks_per_second"] * last["frames_per_stack"])}


def large_libraries(options, folder, small):
    (folder / "large.c").write_text(LARGE_PROGRAM)
    subprocess.run(["gcc", "-O2", folder / "large.c", "-o", folder / "large"], check=True)
    copies = [folder / f"libLLVM-{i}.so" for i in range(COPIES)]
    for copy in copies:  # the loader takes links for the same library
        shutil.copyfile(LIBRARY, copy)
    count = taken([folder / "large", *copies], folder)
    results = [ours(options.bench, folder) for _ in range(options.rounds)]
    rate = max(r["stacks_per_second"] * r["frames_per_stack"] for r in results)
    return {"type": "benchmark", "question": f"{COPIES} libraries of 110 MB", "stacks": count,
            "frames_per_stack": results[0]["frames_per_stack"],
            "first_stack_ms": round(statistics.median(r["first_ms"] for r in results), 1), "first_goal_ms": 50,
            "anonymous_megabytes": round(results[0]["anonymous_kilobytes"] / 1024, 1), "memory_goal_megabytes": 64,
            "frames_per_second_of_small": round(rate / small["frames_per_second"], 2)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", type=Path, default=ROOT / "build/tests/integration/unwind-bench")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        small, large = Path(folder) / "small", Path(folder) / "large"
        small.mkdir()
        large.mkdir()
        results.append(twenty_frames(options, small))
        if LIBRARY.exists():
            results.append(large_libraries(options, large, results[0]))
    for result in results:
        if options.json:
            print(json.dumps(result))
        else:
            print("  ".join(f"{key}={value}" for key, value in result.items() if key != "type"))


if __name__ == "__main__":
    main()
