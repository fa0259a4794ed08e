#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""every_copy.py UPROBECTL
`--everywhere`: one run probes every copy of a library: two files of its name, one that is deleted while it is mapped,
and one that only a process in a mount namespace of its own sees; against the calls that the processes make. Needs root
and gcc. Prints TAP."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap

UPROBECTL = str(Path(sys.argv[1]).resolve())
TAP = Tap()
CALLS = 20
NAME = f"libcopied{os.getpid()}.so"  # no other process has a library of this name
LIBRARY = "int copied_work(int n) { __asm__ volatile(\"\" : \"+r\"(n)); return n + COPY; }"
# Waits for a line, calls, and waits until its input ends.
PROGRAM = r"""
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char** argv) {
  void* library = dlopen(argv[1], RTLD_NOW);
  int (*work)(int) = library ? (int (*)(int))dlsym(library, "copied_work") : 0;
  if (argc != 2 || !work) return 1;
  puts("ready");
  fflush(stdout);
  getchar();
  for (int i = 0; i < CALLS; ++i) work(i);
  puts("done");
  fflush(stdout);
  while (getchar() != EOF) {}
  return 0;
}
"""


def build(folder):
    (folder / "program.c").write_text(PROGRAM)
    program = folder / "program"
    subprocess.run(["gcc", f"-DCALLS={CALLS}", "-o", program, folder / "program.c", "-ldl"], check=True, timeout=60)
    (folder / "library.c").write_text(LIBRARY)
    copies = []
    for number, where in enumerate(["first", "second", "deleted", "hidden"]):
        (folder / where).mkdir()
        copies.append(folder / where / NAME)
        subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-Wl,--build-id", f"-DCOPY={number}", "-o", copies[-1],
                        folder / "library.c"], check=True, timeout=60)
    return program, copies


def start(program, library, hides=None):
    command = [program, library]
    if hides:  # the library is in a file system that only this process has
        script = f'mount -t tmpfs none "{hides}" && cp "{library}" "{hides}/" && exec "{program}" "{hides}/{NAME}"'
        command = ["unshare", "-m", "sh", "-c", script]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    if process.stdout.readline() != "ready\n":
        raise RuntimeError(f"{command} does not start")
    return process


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program, copies = build(folder)
        mount = folder / "mount"
        mount.mkdir()
        processes = [start(program, copy) for copy in copies[:3]] + [start(program, copies[3], mount)]
        try:
            copies[2].unlink()
            copies[3].unlink()
            listed = subprocess.run([UPROBECTL, "resolve", "--everywhere", "--json", NAME, "copied_work"],
                                    capture_output=True, text=True, timeout=60)
            files = [json.loads(line)["file"] for line in listed.stdout.splitlines()]
            TAP.check("resolve finds the four copies", [] if len(files) == 4 else [listed.stdout + listed.stderr])
            run = subprocess.Popen([UPROBECTL, "attach", "--everywhere", "--json", "-d", "30s", NAME, "copied_work"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for line in run.stdout:
                if json.loads(line)["type"] == "attached":
                    break
            for process in processes:
                process.stdin.write("go\n")
                process.stdin.flush()
                process.stdout.readline()
            run.send_signal(signal.SIGINT)
            events = [json.loads(line) for line in run.communicate(timeout=60)[0].splitlines()]
            hits = {process.pid: 0 for process in processes}
            for event in events:
                if event["type"] == "event":
                    hits[event["pid"]] += 1
            TAP.check("attach counts the calls of each copy's process",
                      [] if set(hits.values()) == {CALLS} else [str(hits)])
            build_id = [json.loads(line)["build_id"] for line in listed.stdout.splitlines()][0]
            found = subprocess.run([UPROBECTL, "resolve", "--everywhere", "--json", build_id, "copied_work"],
                                   capture_output=True, text=True, timeout=120)
            ids = [json.loads(line).get("build_id") for line in found.stdout.splitlines()]
            TAP.check("a build id means the copies of this build", [] if ids == [build_id] else [found.stdout + found.stderr])
        finally:
            for process in processes:
                process.stdin.close()
                process.wait(timeout=30)
    TAP.done()


if os.geteuid() != 0 or not shutil.which("gcc"):
    TAP.skip("every copy", "needs root and gcc")
    TAP.done()
else:
    main()
