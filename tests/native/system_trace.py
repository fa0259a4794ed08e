#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""system_trace.py UPROBECTL
attach --with-system-trace with a program that behaves as perfetto does: it reads a configuration, writes packets to a
file half a second after it begins and when SIGTERM comes, and then ends. Needs root. Prints TAP."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS), str(TESTS / "integration")]
from adb_device_world import World
from perfetto_trace import Trace
from tap import Tap

UPROBECTL = str(Path(sys.argv[1]).resolve())
TAP = Tap()

PROGRAM = r"""
#include <stdio.h>
#include <time.h>
__attribute__((noinline)) long work(long n) { __asm__ volatile(""); return n + 1; }
int main(void) {
  for (long i = 0; i < 5; i++) {
    work(i);
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
  }
  return 0;
}
"""

# A packet is field 1 of the trace; its field 8 is a timestamp, 10 the sequence. The file `mode` says how it fails.
PERFETTO = r"""#!/usr/bin/env python3
import json, os, signal, sys, time
folder = os.path.dirname(os.path.abspath(sys.argv[0]))
mode = open(folder + "/mode").read()
config = sys.stdin.read()
with open(folder + "/starting", "w") as log:
    json.dump({"words": sys.argv[1:], "config": config, "pid": os.getpid()}, log)
os.rename(folder + "/starting", folder + "/started")
if mode == "refuses":
    print("[1.2] perfetto_cmd.cc:1 Connection failed\nFailed to connect to the traced service", file=sys.stderr)
    sys.exit(1)
if mode == "hangs":
    time.sleep(60)
def packet(number):
    body = b"\x40" + bytes([number]) + b"\x50\x07"
    return b"\x0a" + bytes([len(body)]) + body
ended = False
def end(*_):
    global ended
    ended = True
if mode != "ignores":
    signal.signal(signal.SIGTERM, end)
else:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
path = sys.argv[sys.argv.index("-o") + 1]
with open(path, "wb", buffering=0) as file:
    time.sleep(0.5)
    file.write(packet(1) + packet(2))
    if mode == "large":
        file.write(packet(3) * 1_000_000)
    if mode == "ends":
        sys.exit(0)
    while not ended:
        time.sleep(0.02)
    time.sleep(0.3)
    file.write(packet(4))
    if mode == "cut":
        file.write(b"\x0a\x50half")
with open(folder + "/ended", "w") as log:
    log.write("by SIGTERM")
"""


def packets(trace):
    found = []
    at = 0
    while at < len(trace):
        begin, size, shift = at, 0, 0
        at += 1  # the tag
        while True:
            size |= (trace[at] & 0x7f) << shift
            shift += 7
            at += 1
            if trace[at - 1] < 0x80:
                break
        found.append((trace[begin:at + size], trace[at:at + size]))
        at += size
    return found


def theirs(trace):
    "The timestamps of perfetto's packets."
    return [body[1] for _, body in packets(trace) if body[2:] == b"\x50\x07"]


def ours(trace):
    return Trace(b"".join(packet for packet, body in packets(trace) if body[2:] != b"\x50\x07"))


class Stage:
    def __init__(self, folder):
        self.folder = Path(folder)
        self.program = self.folder / "worker"
        source = self.folder / "worker.c"
        source.write_text(PROGRAM)
        subprocess.run(["gcc", "-O2", "-o", self.program, source], check=True)
        self.commands = self.folder / "commands"
        self.commands.mkdir()
        self.perfetto = self.commands / "perfetto"
        self.perfetto.write_text(PERFETTO)
        self.perfetto.chmod(0o755)
        self.environment = os.environ | {"UPROBECTL_ANDROID_COMMANDS": str(self.commands), "TMPDIR": str(self.folder)}

    def words(self, *options):
        return [UPROBECTL, "attach", *options, str(self.program), "work", "--", str(self.program)]

    def run(self, mode, *options):
        (self.commands / "mode").write_text(mode)
        for name in ("started", "ended"):
            (self.commands / name).unlink(missing_ok=True)
        return subprocess.run(self.words(*options), capture_output=True, text=True, timeout=100, env=self.environment)

    def started(self):
        return json.loads((self.commands / "started").read_text())

    def left(self):
        "What is left of a run: files of the trace, and perfetto."
        files = [str(each) for each in self.folder.glob("uprobectl-*")]
        pid = self.started()["pid"]
        return files + ([f"process {pid}"] if Path(f"/proc/{pid}").exists() else [])


def check_merged(stage):
    out = stage.folder / "run.pftrace"
    done = stage.run("works", "--latency", "--with-system-trace", "-o", str(out))
    data = out.read_bytes()
    TAP.check("the run's file has what perfetto recorded",
              [] if theirs(data) == [1, 2, 4] else [str(theirs(data)), done.stderr])
    names = [each[3] for each in ours(data).slices]
    TAP.check("and the run's calls", [] if names == ["work"] * 5 else [str(names), done.stderr])
    TAP.check("perfetto ends before the run does", [] if (stage.commands / "ended").exists() else ["it did not"])
    TAP.check("nothing is left", stage.left())
    config = stage.started()["config"]
    missing = [each for each in ('"sched/sched_switch"', 'atrace_categories: "gfx"', 'atrace_apps: "*"',
                                 "android.surfaceflinger.frametimeline", "write_into_file: true") if each not in config]
    TAP.check("it records scheduling, Android's sections and frames", missing)
    words = stage.started()["words"]
    TAP.check("its configuration is text of stdin", [] if words[:3] == ["--txt", "-c", "-"] else [str(words)])


def check_categories(stage):
    out = stage.folder / "run.pftrace"
    stage.run("works", "--latency", "-d", "7s", "--with-system-trace=sched,camera", "-o", str(out))
    config = stage.started()["config"]
    found = re.findall(r'atrace_categories: "(\w+)"', config)
    TAP.check("categories are those of the option", [] if found == ["sched", "camera"] else [config])
    TAP.check("and no frames", [config] if "frametimeline" in config else [])
    TAP.check("perfetto would end by itself later", [] if "duration_ms: 307000" in config else [config])
    for options, reason in ((["--with-system-trace", "-o", str(stage.folder / "run.json")], "-o FILE.pftrace"),
                            (["--with-system-trace=a;b", "-o", str(out)], "expected categories such as"),
                            (["--with-system-trace", "--stack", "--unwind-on", "host", "--save", "x", "-o", str(out)],
                             "needs --unwind-on device")):
        done = stage.run("works", *options)
        TAP.check(f"{' '.join(options[:1])}: {reason}", [] if done.returncode == 2 and reason in done.stderr
                  else [f"{done.returncode}: {done.stderr}"])


def check_large(stage):
    out = stage.folder / "run.pftrace"
    done = stage.run("large", "--latency", "--with-system-trace", "-o", str(out))
    count = theirs(out.read_bytes()).count(3) if done.returncode == 0 else done.stderr
    TAP.check("a trace of a million packets is added whole", [] if count == 1_000_000 else [str(count)])
    pipe = stage.folder / "pipe.pftrace"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE) as reader:
        writer = subprocess.Popen(stage.words("--latency", "--with-system-trace", "-o", str(pipe)), env=stage.environment,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        time.sleep(3)  # it reads late
        data = reader.stdout.read()
        errors = writer.communicate(timeout=60)[1]
    count = theirs(data).count(3)
    TAP.check("also through a pipe that is read late", [] if count == 1_000_000 else [str(count), errors])


def check_failures(stage):
    out = stage.folder / "run.pftrace"
    done = stage.run("cut", "--latency", "--with-system-trace", "-o", str(out))
    TAP.check("a packet that is not complete is left out, with a warning",
              [] if "6 of 24 bytes of perfetto's trace are damaged or incomplete" in done.stderr
              and theirs(out.read_bytes()) == [1, 2, 4] else [done.stderr])
    done = stage.run("ends", "--latency", "--with-system-trace", "-o", str(out))
    TAP.check("a perfetto that ends early is reported", [] if "perfetto ended before the run" in done.stderr
              and done.returncode == 0 and theirs(out.read_bytes()) == [1, 2] else [done.stderr])
    done = stage.run("refuses", "--latency", "--with-system-trace", "-o", str(out))
    TAP.check("one that does not begin fails the run with its reason", [] if done.returncode == 1
              and "perfetto ended with status 1: Failed to connect to the traced service" in done.stderr
              and "persist.traced.enable" in done.stderr else [f"{done.returncode} {done.stderr}"])
    begun = time.monotonic()
    done = stage.run("hangs", "--latency", "--with-system-trace", "-o", str(out))
    TAP.check("one that records nothing fails the run after 10 s", [] if done.returncode == 1
              and "does not record within 10 s" in done.stderr and time.monotonic() - begun < 40 else [done.stderr])
    TAP.check("and is ended", stage.left())
    done = stage.run("ignores", "--latency", "--with-system-trace", "-o", str(out))
    TAP.check("one that ignores SIGTERM is killed, with a warning", ([] if "did not end after SIGTERM, and was killed" in done.stderr
              and theirs(out.read_bytes()) == [1, 2] else [done.stderr]) + stage.left())
    stage.perfetto.rename(stage.commands / "elsewhere")
    done = stage.run("works", "--latency", "--with-system-trace", "-o", str(out)) if not subprocess.run(
        ["which", "perfetto"], capture_output=True).stdout else None
    (stage.commands / "elsewhere").rename(stage.perfetto)
    TAP.check("without perfetto the run says what to do", [] if done is None or done.returncode == 1
              and "needs perfetto, which is not here" in done.stderr else [done.stderr])


def check_killed(stage, is_early):
    (stage.commands / "mode").write_text("works")
    for name in ("started", "ended"):
        (stage.commands / name).unlink(missing_ok=True)
    out = stage.folder / "run.pftrace"
    out.unlink(missing_ok=True)
    until = time.monotonic() + 60
    with subprocess.Popen([UPROBECTL, "attach", "-d", "60s", "--with-system-trace", "-o", str(out), "-p", str(os.getpid()),
                           "libc.so.6", "getppid"], env=stage.environment, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as run:
        while time.monotonic() < until and not ((stage.commands / "started").exists() if is_early else
                                                out.exists() and out.stat().st_size):
            time.sleep(0.01)
        run.send_signal(signal.SIGKILL)

    def problems():
        # One that is ended while it starts has not said so.
        return stage.left() + ([] if is_early or (stage.commands / "ended").exists() else ["it has not ended by SIGTERM"])

    until = time.monotonic() + 20
    while problems() and time.monotonic() < until:
        time.sleep(0.1)
    TAP.check(f"perfetto ends with a run that is killed {'while it starts' if is_early else 'later'}", problems())


def check_device(stage):
    (stage.commands / "mode").write_text("large")
    with World(UPROBECTL) as world:
        device = world.add_device(is_root=True)
        perfetto = device.root / "system/bin/perfetto"
        perfetto.write_text(f'#!/bin/sh\nexec {stage.perfetto} "$@"\n')
        perfetto.chmod(0o755)
        out = stage.folder / "device.pftrace"
        done = world.run(device, "attach", "--latency", "--with-system-trace", "-o", out, stage.program, "work", "--",
                         stage.program)
        data = out.read_bytes() if done.returncode == 0 else b""
        found = theirs(data)
        TAP.check("with --adb the file of the workstation has both", [] if found.count(3) == 1_000_000 and found[-1] == 4
                  and [each[3] for each in ours(data).slices] == ["work"] * 5 else [str(found[:4]), done.stderr])
    TAP.check("and nothing is left on the device", stage.left())


def main():
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(folder)
        check_merged(stage)
        check_categories(stage)
        check_large(stage)
        check_failures(stage)
        check_killed(stage, False)
        check_killed(stage, True)
        check_device(stage)
    TAP.done()


if __name__ == "__main__":
    main()
