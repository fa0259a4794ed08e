#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""java_collections.py UPROBECTL
Spans between the static probes of a Java machine that begin and end a garbage collection, against its own log
(-Xlog:gc). Needs root, a JDK whose libjvm.so has the probes. Prints TAP."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent.parent)]
from tap import Tap

UPROBECTL = str(Path(sys.argv[1]).resolve())
TAP = Tap()
NAME = "spans of collections are those of the machine's log"

SOURCE = """
public class Garbage {
  static byte[][] kept = new byte[64][];
  public static void main(String[] args) throws Exception {
    System.in.read();
    for (int i = 0; i < 6000; i++) {
      kept[i & 63] = new byte[100000];
      if ((i & 255) == 255) System.gc();
    }
    System.out.println("done");
    System.in.read();
  }
}
"""


def find_machine():
    "Returns the path of java and of libjvm.so, if it has the probes."
    java = shutil.which("java")
    if java is None or shutil.which("javac") is None:
        return None
    library = Path(os.path.realpath(java)).parent.parent / "lib/server/libjvm.so"
    notes = subprocess.run(["readelf", "-n", str(library)], capture_output=True, text=True).stdout
    return (java, str(library)) if "gc__begin" in notes and "gc__end" in notes else None


def check(java, library, folder):
    Path(folder, "Garbage.java").write_text(SOURCE)
    subprocess.run(["javac", "-d", folder, str(Path(folder, "Garbage.java"))], check=True)
    log = Path(folder, "gc.log")
    with subprocess.Popen([java, "-XX:+UseSerialGC", "-Xmx48m", f"-Xlog:gc:file={log}:uptimenanos", "-cp", folder, "Garbage"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as machine:
        with subprocess.Popen([UPROBECTL, "attach", "-j", "-d", "60s", "-p", str(machine.pid), "--span",
                               "gc=usdt:hotspot:gc__begin..usdt:hotspot:gc__end", library],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as run:
            lines = []
            for line in run.stdout:  # until the probes are there
                lines.append(line)
                if '"type":"attached"' in line:
                    break
            machine.stdin.write("\n")
            machine.stdin.flush()
            machine.stdout.readline()
            time.sleep(0.5)
            machine.stdin.write("\n")
            machine.stdin.close()
            lines += run.stdout.readlines()
    spans = [json.loads(line) for line in lines if '"type":"span"' in line]
    found = [each["duration_ns"] for each in sorted(spans, key=lambda each: each["start_ns"])]
    logged = [float(match[1]) * 1e6 for match in re.finditer(r"Pause .* ([\d.]+)ms", log.read_text())]
    if len(found) != len(logged) or len(found) < 23:
        return [f"{len(found)} spans, {len(logged)} pauses in the log"]
    # The probes stand within the pause. What the log adds may be preempted.
    more = sorted(theirs - mine for mine, theirs in zip(found, logged))
    typical = more[len(more) // 2]
    return [] if -50_000 < typical < 500_000 else [f"the log has {typical} ns more: {found[:3]} {logged[:3]}"]


def main():
    machine = find_machine()
    if machine is None:
        TAP.skip(NAME, "no java on this machine")
    else:
        with tempfile.TemporaryDirectory() as folder:
            TAP.check(NAME, check(*machine, folder))
    TAP.done()


if __name__ == "__main__":
    main()
