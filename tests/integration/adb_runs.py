#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs on devices (--adb) with Debian's adb client and devices of our own making (tests/adb_device.py).
Usage: adb_runs.py UPROBECTL FIXTURES [--many]; prints TAP. --many: twenty devices at once."""

import contextlib
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from adb_device_world import Checks, World, difference, holds_within, records_of, without_device
from adb_symbols import SymbolTests
from record_schema import RecordSchema
from tap import Tap

LIBC = "libc.so.6"
# A client that counts what comes from runs.
COUNTING_CLIENT = """#!{python}
import os, subprocess, sys
words = ["adb", *sys.argv[1:]]
if "--agent" not in words[-1]:
    os.execvp("adb", words)
size = 0
with subprocess.Popen(words, stdout=subprocess.PIPE) as client:
    while data := os.read(client.stdout.fileno(), 1 << 16):
        size += len(data)
        os.write(1, data)
with open("{counts}", "a") as counts:
    counts.write(f"{{size}}\\n")
sys.exit(client.returncode)
"""

# Root without any capability of the machine, where SELinux seems to say what DEVICE_ROOT/enforce has.
CONFINED_SHELL = """#!/bin/sh
exec unshare -m sh -c '
  mount -t tmpfs tmpfs /sys/fs && mkdir /sys/fs/selinux && cp "$DEVICE_ROOT/enforce" /sys/fs/selinux || exit
  exec unshare -U -r sh "$@"' sh "$@"
"""


class Tests:
    def __init__(self, world, fixtures):
        self.world, self.fixtures = world, fixtures

    def check_same(self, device, *arguments):
        """A question through --adb and by hand has the same answer."""
        far = self.world.run(device, *arguments, "--json")
        here = self.world.run(None, *arguments, "--json")
        problems = difference(f"{arguments}: status", far.returncode, here.returncode)
        problems += difference("stderr", far.stderr.replace(f"uprobectl --adb={device.serial} ", "uprobectl "), here.stderr)
        # Commands in hints are those of the workstation.
        far_text = far.stdout.replace(f"uprobectl --adb={device.serial} ", "uprobectl ")
        problems += difference("records", without_device(records_of(far_text)), records_of(here.stdout))
        problems += difference("devices", {record.get("device") for record in records_of(far.stdout)},
                               {device.serial} if here.stdout else set())
        return problems

    def equal_answers(self, device):
        apk = next(self.fixtures.glob("**/greet.apk"))
        problems = []
        for question in [("resolve", LIBC, "malloc", "free"), ("resolve", LIBC, "malllloc"),
                         ("list-symbols", apk), ("list-symbols", f"{apk}!/lib/*/libgreet.so", "greet*"),
                         ("resolve", f"{apk}!/lib/*/libgreet.so", "greet*"), ("doctor",)]:
            problems += self.check_same(device, *question)
        done = self.world.run(device, "resolve", LIBC, "mallo")
        if f"hint: list candidates with: uprobectl --adb={device.serial} list-symbols {LIBC} " not in done.stderr:
            problems.append(f"a command in a hint: {done.stderr}")
        return problems

    def installs_once(self, device):
        self.world.run(device, "resolve", LIBC, "malloc")
        inode = device.program.stat().st_ino
        self.world.run(device, "resolve", LIBC, "malloc")
        problems = [] if device.program.stat().st_ino == inode else ["the same program was pushed again"]
        device.program.write_bytes(b"an older version")
        answer = self.world.run(device, "resolve", LIBC, "malloc")
        problems += difference("status with an older program", answer.returncode, 0)
        if device.program.stat().st_size < 1 << 20:
            problems.append("the older program was not replaced")
        return problems + difference("files on the device", sorted(os.listdir(device.folder)), ["uprobectl"])

    def starts_at_once(self, device):
        """A device that is known is not asked what it is, but what has happened to the program is found out."""
        home, log = self.world.path / "known-home", self.world.path / "known-commands"
        client = self.world.path / "logging-adb"
        client.write_text(f"#!/bin/sh\necho \"$3\" >>'{log}'\nexec adb \"$@\"\n")
        client.chmod(0o755)
        environment = {**self.world.environment, "XDG_CACHE_HOME": str(home), "ADB": str(client)}
        problems = []

        def check(what, expected, *options, words=("resolve", LIBC, "malloc"), **more):
            log.write_text("")
            done = self.world.run(device, *options, *words, env={**environment, **more})
            commands = [line for line in log.read_text().split() if line in ("shell", "push")]
            return difference(f"{what}: status ({done.stderr})", done.returncode, 0) + difference(f"{what}: commands", commands, expected)
        known, asked = ["shell"], ["shell", "shell"]
        # The program that is known does not run; the device is asked, and gets the program.
        replaced = ["shell", "shell", "push", "shell", "shell"]
        log.write_text("")
        self.world.run(device, "resolve", LIBC, "malloc", env=environment)
        problems += check("known", known)
        problems += check("--no-cache", asked, "--no-cache")
        problems += check("UPROBECTL_NO_CACHE", asked, UPROBECTL_NO_CACHE="1")
        right, before = device.program.read_bytes(), device.program.stat()
        with device.program.open("r+b") as file:
            file.seek(before.st_size // 2)
            byte = file.read(1)
            file.seek(before.st_size // 2)
            file.write(bytes([byte[0] ^ 1]))
        os.utime(device.program, ns=(before.st_atime_ns, before.st_mtime_ns))
        problems += difference("size and time of the damaged program",
                               (device.program.stat().st_size, device.program.stat().st_mtime_ns), (before.st_size, before.st_mtime_ns))
        problems += check("damaged", replaced)
        if device.program.read_bytes() != right:
            problems.append("the damaged program was not replaced")
        problems += check("known again", known)
        device.program.unlink()
        problems += check("removed", replaced)
        os.truncate(device.program, 1 << 20)
        problems += check("cut off", replaced)
        other = device.folder / "other"
        other.write_bytes(right)
        other.chmod(0o755)
        other.rename(device.program)
        problems += check("replaced by the same", ["shell", "shell", "shell"])
        problems += check("known once more", known)
        entries = list((home / "uprobectl").glob("device-*"))
        problems += difference("entries", len(entries), 1)
        entries[0].write_bytes(entries[0].read_bytes()[:-1])
        problems += check("a damaged entry", asked)
        here = self.world.path / "program-here"
        shutil.copy(self.world.uprobectl, here)
        problems += check("another program here", asked, "--device-program", here)
        # su is looked for once; the program then runs with it, and without it if root is not needed.
        problems += check("root is needed first", ["shell"] * 3, words=["doctor"])
        problems += check("root is known", known, words=["doctor"])
        problems += check("root is not needed", known)
        problems += check("root is still known", known, words=["doctor"])
        problems += difference("su", (device.root / "su.log").read_text().splitlines()[-2:], [f"{self.world.folder}/uprobectl --agent"] * 2)
        self.world.run(device, "--clean", env=environment)
        return problems + difference("after --clean", (home / "uprobectl").exists(), False)

    def passes_arguments(self, device):
        problems = []
        name = "two  blanks quote'd double\"d $HOME bang! back\\slash `id` new\nline ünï *;&|<>"
        folder = self.world.path / name
        folder.mkdir()
        shutil.copy(self.fixtures / "workload", folder / "app")
        for words in [(f"{folder}/app", "work_six"), (f"{folder}/app", name), ("--", "-", name)]:
            problems += self.check_same(device, "resolve", *words)
        answer = records_of(self.world.run(device, "resolve", "--json", f"{folder}/app", "work_six").stdout)
        return problems + difference("file", [record.get("file") for record in answer], [f"{folder}/app"])

    def carries_files(self, device):
        """Files of options are on the workstation: requests from a file and from stdin, the output file."""
        requests = f"{LIBC} malloc\n{LIBC} free\n"
        expected = self.world.run(None, "resolve", "-f", "-", input=requests).stdout
        (self.world.path / "my requests").write_text(requests)
        problems = difference("-f FILE", self.world.run(device, "resolve", "-f", "my requests").stdout, expected)
        problems += difference("-f -", self.world.run(device, "resolve", "-f", "-", input=requests).stdout, expected)
        done = self.world.run(device, "resolve", "-f", "my requests", "-o", "answer", "--json")
        problems += difference("stdout with -o", done.stdout, "")
        written = records_of((self.world.path / "answer").read_text())
        problems += difference("symbols in -o", [record["symbol"] for record in written], ["malloc", "free"])
        problems += difference("device in -o", written[0]["device"], device.serial)
        missing = self.world.run(device, "resolve", "-f", "missing")
        problems += difference("a missing file", (missing.returncode, missing.stderr),
                               (1, "uprobectl: error: missing: no such file or directory\n"))
        on_device = device.root / "requests"
        on_device.write_text(requests)
        return problems + difference("-f device:", self.world.run(device, "resolve", "-f", f"device:{on_device}").stdout,
                                     expected)

    def updates_the_record(self, device, other):
        """The record of --verify --update is on the workstation, the files that it is about are on the device."""
        record = self.world.path / "recorded"
        update = ["resolve", "--verify", "recorded", "--update"]
        self.world.run(device, "resolve", "--json", "-o", "recorded", self.fixtures / "workload", "work_six", "work_count")
        right = record.read_text()
        moved = re.sub('offset":"0x[0-9a-f]*"', 'offset":"0x10"', right)
        record.write_text(moved)
        record.chmod(0o640)

        drifted = self.world.run(device, "resolve", "--verify", "recorded")
        problems = difference(f"drift: {drifted.stderr}", (drifted.returncode, record.read_text()), (1, moved))
        both = self.world.run([device, other], *update)
        problems += difference("two devices", (both.returncode, both.stderr.splitlines()[:1], record.read_text()),
                               (2, ["uprobectl: error: recorded: cannot be updated with the results of 2 devices"], moved))
        updated = self.world.run(device, *update)
        problems += difference(f"update: {updated.stderr}", (updated.returncode, updated.stdout, record.read_text()),
                               (0, drifted.stdout, right))
        problems += difference("mode", record.stat().st_mode & 0o777, 0o640)
        stdin = self.world.run(device, "resolve", "--verify", "-", "--update", input=right)
        problems += difference("stdin", (stdin.returncode, "--update cannot rewrite stdin" in stdin.stderr), (2, True))
        record.rename(self.world.path / "link-target")
        record.symlink_to("link-target")
        record.write_text(moved)
        linked = self.world.run(device, *update)
        problems += difference(f"link: {linked.stderr}", (record.is_symlink(), record.read_text()), (True, right))
        there = device.root / "recorded"
        there.write_text(moved)
        self.world.run([device], "resolve", "--verify", f"device:{there}", "--update")
        problems += difference("device:", without_device(records_of(there.read_text())), without_device(records_of(right)))
        return problems + difference("files", sorted(path.name for path in self.world.path.glob("recorded*")), ["recorded"])

    @contextlib.contextmanager
    def downloads(self, answer):
        """The environment for a debuginfod-find on the workstation that runs these shell commands, and its log."""
        commands, log = self.world.path / "commands", self.world.path / "asked"
        commands.mkdir()
        find = commands / "debuginfod-find"
        find.write_text(f'#!/bin/sh\necho "$*" >>{log}\n{answer}\n')
        find.chmod(0o755)
        log.touch()
        try:
            yield {**self.world.environment, "PATH": f"{commands}:{os.environ['PATH']}"}, log
        finally:
            shutil.rmtree(commands)
            log.unlink()

    def downloads_here(self, device):
        """--debuginfod runs debuginfod-find on the workstation."""
        whole, stripped = self.fixtures / "inlined-calls", self.world.path / "stripped"
        subprocess.run(["strip", "-o", stripped, whole], check=True)
        source = self.world.path / "downloaded"
        source.write_text("one\n" * 200)
        problems = []
        with self.downloads(f'case $1 in source) echo {source} ;; *) echo {whole} ;; esac') as (environment, log):
            for question in [("resolve", "--json", stripped, "outer"), ("list-args", "--json", stripped, "outer"),
                             ("list-lines", "--json", stripped, "outer")]:
                log.write_text("")
                far = self.world.run(device, *question, "--debuginfod", env=environment)
                asked = log.read_text()
                here = self.world.run(None, *question, "--debuginfod", env=environment)
                problems += difference(f"{question} ({far.stderr})", (far.returncode, without_device(records_of(far.stdout))),
                                       (0, records_of(here.stdout)))
                problems += difference(f"{question} asks", asked * 2, log.read_text())
                problems += difference(f"{question}: messages", far.stderr, here.stderr)
        for answer, arguments, expected in [
                ("echo no such file >&2; exit 1", [], "has no debug file for build id"),
                (f"echo {self.fixtures}", [], "is a directory"),
                (f"echo {self.fixtures / 'workload'}", [], "its build id is")]:
            with self.downloads(answer) as (environment, log):
                done = self.world.run(device, "resolve", "--debuginfod", *arguments, stripped, "outer", "other",
                                      env=environment)
                if done.returncode != 1 or done.stderr.count(expected) != 1:
                    problems.append(f"{answer}: {done.returncode} {done.stderr}")
        with self.slow_download(device, stripped, "outer") as run:
            run.send_signal(signal.SIGINT)
            run.communicate(timeout=20)
            problems += difference("status after Ctrl-C", run.returncode, 130)
        return problems

    @contextlib.contextmanager
    def slow_download(self, device, *question):
        """A run that waits for a download. The program that downloads has a child: both end with the block."""
        with self.downloads("sleep 60 & echo $! >>asked; wait") as (environment, log):
            run = self.world.start(device, "resolve", "--debuginfod", *question, env=environment)
            if not holds_within(20, lambda: log.read_text().count("\n") == 2):
                raise RuntimeError(f"nothing was asked: {run.communicate(timeout=20)}")
            yield run
            child = int(log.read_text().split()[-1])
            if not holds_within(5, lambda: not Path(f"/proc/{child}").exists()):
                raise RuntimeError("a child of the downloading program still runs")

    def keeps_the_record(self, device):
        """A pulled cable ends a download at once, and RECORD stays as it was."""
        whole, stripped, record = self.fixtures / "inlined-calls", self.world.path / "no-names", self.world.path / "record"
        subprocess.run(["strip", "-o", stripped, whole], check=True)
        self.world.run(device, "resolve", "--json", "-o", "record", whole, "outer")
        moved = re.sub('offset":"0x[0-9a-f]*"', 'offset":"0x10"', record.read_text()).replace(str(whole), str(stripped))
        record.write_text(moved)
        with self.slow_download(device, "--verify", "record", "--update") as run:
            started = time.monotonic()
            device.pull_cable()
            _, errors = run.communicate(timeout=20)
            took = time.monotonic() - started
        self.world.connect(device)
        problems = difference("status and record", (run.returncode, record.read_text()), (1, moved))
        if "the connection to the device ended during the run" not in errors or errors.count("\n") != 1:
            problems.append(errors)
        return problems + ([f"it took {took:.1f} s"] if took > 3 else [])

    def reports_usage_here(self, device):
        wrong = self.world.run(device, "resolve", "--frob")
        problems = difference("status", wrong.returncode, 2)
        if "unknown option '--frob'" not in wrong.stderr:
            problems.append(wrong.stderr)
        help_text = self.world.run(None, "--adb=none-such", "resolve", "--help")
        return problems + difference("help", help_text.returncode, 0)

    def needs_a_device(self, device):
        run = self.world.run
        problems = []
        for arguments, environment, expected in [
                (["--adb=none-such"], {}, "adb knows no device 'none-such'"),
                (["--adb"], {"ANDROID_SERIAL": "other"}, "adb knows no device 'other'"),
                (["--adb"], {"ADB": "/no/adb"}, "$ADB: /no/adb: no such file or directory"),
                (["--adb"], {"PATH": "/var/empty"}, "no program 'adb' in PATH"),
                (["--adb", "--device-dir", "/data/a b"], {}, "invalid folder '/data/a b' for --device-dir"),
                (["--adb=a,,b"], {}, "invalid device '' for --adb")]:
            done = run(None, *arguments, "resolve", LIBC, "malloc", env={**self.world.environment, **environment})
            if done.returncode == 0 or not done.stderr.startswith(f"uprobectl: error: {expected}"):
                problems.append(f"{arguments} {environment}: {done.returncode} {done.stderr}")
        named = run(None, "--adb", "--device-dir", str(self.world.folder), "resolve", LIBC, "malloc",
                    env={**self.world.environment, "ANDROID_SERIAL": device.serial})
        return problems + difference("ANDROID_SERIAL", named.returncode, 0)

    def becomes_root(self, plain, aosp, magisk):
        refused = self.world.run(plain, "list-probes")
        problems = difference("without su", refused.returncode, 1)
        if "this needs root, and the device has no usable su\n  hint: on userdebug" not in refused.stderr:
            problems.append(refused.stderr)
        for device in (aosp, magisk):
            done = self.world.run(device, "list-probes")
            problems += difference(f"{device.serial} with su: {done.stderr}", done.returncode, 0)
            log = (device.root / "su.log").read_text().splitlines()
            problems += difference("su ran", log[-1], f"{self.world.folder}/uprobectl --agent")
        restarted = self.world.run(plain, "--adb-root", "list-probes")
        return problems + difference(f"--adb-root: {restarted.stderr}", restarted.returncode, 0)

    def reports_a_full_device(self, device):
        (device.root / "full").touch()
        device.program.unlink()
        refused = self.world.run(device, "resolve", LIBC, "malloc")
        (device.root / "full").unlink()
        problems = difference("status", refused.returncode, 1)
        if "cannot install" not in refused.stderr or "No space left on device" not in refused.stderr:
            problems.append(refused.stderr)
        return problems + difference("files on the device", os.listdir(device.folder), [])

    def reports_an_old_device(self):
        device = self.world.add_device(options=["--no-shell-v2"])
        done = self.world.run(device, "resolve", LIBC, "malloc")
        problems = difference("status", done.returncode, 1)
        if "cannot run commands on the device" not in done.stderr:
            problems.append(done.stderr)
        return problems

    def runs_side_by_side(self, one, other):
        both = [one, other]
        expected = self.world.run(None, "resolve", LIBC, "malloc").stdout
        text = self.world.run(both, "resolve", LIBC, "malloc")
        problems = difference("text", sorted(text.stdout.splitlines(keepends=True)),
                              sorted(f"{device.serial}\t{expected}" for device in both))
        problems += difference("summary", text.stderr, "2 devices\n")
        (other.root / "full").touch()
        other.program.unlink()
        mixed = self.world.run(both, "resolve", "--json", LIBC, "malloc")
        (other.root / "full").unlink()
        problems += difference("status of one that fails", mixed.returncode, 1)
        found = {(record["type"], record.get("device")) for record in records_of(mixed.stdout)}
        problems += difference("records", found, {("match", one.serial), ("error", other.serial),
                                                  ("devices_summary", None)})
        last = records_of(mixed.stdout)[-1]
        problems += difference("failed", last["failed"], [other.serial])
        schema = RecordSchema()
        problems += [problem for line in mixed.stdout.splitlines() if (problem := schema.problem(line))]
        failing = self.world.run(both, "resolve", LIBC, "malllloc")
        problems += difference("status if both fail alike", failing.returncode, 1)
        if f"{one.serial}: uprobectl: error:" not in failing.stderr:
            problems.append(failing.stderr)
        self.world.run(both, "resolve", "--json", "-o", "of-both", LIBC, "malloc")
        written = records_of((self.world.path / "of-both").read_text())
        return problems + difference("-o of both", {record["device"] for record in written},
                                     {device.serial for device in both})

    def lists_devices(self, one, other):
        del other
        text = self.world.run(None, "devices", f"--adb={one.serial}", "--device-dir", self.world.folder)
        columns = text.stdout.rstrip("\n").split("\t")
        machine = os.uname()
        problems = difference("columns", columns[:7], [one.serial, "device", "Test  Device", "14", machine.release,
                                                       machine.machine, "su"])
        problems += difference("a verdict", columns[7] in ("yes", "no") and len(columns) == 9, True)
        lines = self.world.run(None, "devices", "--json", "--device-dir", self.world.folder).stdout.splitlines()
        schema = RecordSchema()
        problems += [problem for line in lines if (problem := schema.problem(line))]
        doctor = [record for record in records_of(self.world.run(one, "doctor", "--json").stdout)
                  if record["name"] == "attach"]
        record = next((each for each in records_of("\n".join(lines)) if each.get("serial") == one.serial), None)
        if not record:
            return [*problems, *lines]
        return problems + difference("verdict", (record["attach"], record["reason"]),
                                     (doctor[0]["ok"], doctor[0]["reason"]))

    def bounds_the_verdict(self, device):
        """A device that does not stop talking is given up."""
        version = self.world.run(None, "--version").stdout.split()[1]
        hello = b"\x02\x00" + version.encode()
        start = b"\0uprobectl agent\0" + len(hello).to_bytes(4, "little") + b"\x01" + hello
        (device.root / "start").write_bytes(start)
        (device.root / "records").write_bytes(((4096).to_bytes(4, "little") + b"\x20" + b"x" * 4096) * 16)
        su = device.root / "system/bin/su"
        before = su.read_text()
        su.write_text('#!/bin/sh\n[ "$2" = id ] && { echo 0; exit; }\ncd "$DEVICE_ROOT" && cat start && '
                      'while cat records; do :; done 2>/dev/null\n')
        listed = self.world.run(None, "devices", f"--adb={device.serial}", "--device-dir", self.world.folder)
        su.write_text(before)
        return difference(f"record ({listed.stderr})", listed.stdout.rstrip("\n").split("\t")[-1],
                          "doctor: more than 1 MiB of output")

    def cleans(self, device):
        self.world.run(device, "--clean", "resolve", LIBC, "malloc")
        problems = difference("after a run", os.listdir(device.folder), [])
        self.world.run(device, "resolve", LIBC, "malloc")
        alone = self.world.run(device, "--clean")
        problems += difference("alone", (alone.returncode, alone.stdout, alone.stderr), (0, "", ""))
        return problems + difference("alone", os.listdir(device.folder), [])

    def ends_with_its_reader(self, device):
        with self.world.start(device, "list-symbols", "--aliases", LIBC) as process:
            process.stdout.readline()
            process.stdout.close()
            errors = process.stderr.read()
            status = process.wait(timeout=20)
        return difference("status", (status, errors), (0, "")) + ([] if device.agents_end_within(5) else ["still runs"])

    def waits_for_a_slow_reader(self, device):
        """Longer than the 5 s that an agent waits for the host, with more than all buffers hold."""
        with self.world.start(device, "list-symbols", "--json", "libLLVM-14.so.1", "*M*") as process:
            time.sleep(6.5)
            lines = process.stdout.read().count("\n")
            errors = process.stderr.read()
            status = process.wait(timeout=60)
        here = self.world.run(None, "list-symbols", "--json", "libLLVM-14.so.1", "*M*").stdout.count("\n")
        return difference(f"lines and status ({errors})", (lines, status), (here, 0))

    def agent_ends_alone(self):
        """Without a frame for 5 seconds, or at the end of its input."""
        started = time.monotonic()
        with subprocess.Popen([self.world.uprobectl, "--agent"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as agent:
            status = agent.wait(timeout=20)
        took = time.monotonic() - started
        with subprocess.Popen([self.world.uprobectl, "--agent"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as agent:
            agent.stdin.close()
            soon = agent.wait(timeout=2)
        return difference("status", (status, soon), (1, 1)) + ([] if 4.5 < took < 8 else [f"it took {took} s"])


class EndTests:
    """What ends a run: they probe a program that the test starts."""

    def __init__(self, world, fixtures):
        self.world, self.workload, self.shop = world, fixtures / "workload", fixtures / "shop"

    @contextlib.contextmanager
    def attached(self, device):
        """A run of a minute that has had a hit."""
        with subprocess.Popen([self.workload, "--calls", "100000", "--delay-us", "2000", "--hold"], stdin=subprocess.PIPE,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as target:
            run = self.world.start(device, "attach", "--json", "-d", "60s", "-p", target.pid, self.workload, "work_six")
            try:
                line = ""
                while '"event"' not in line:
                    line = run.stdout.readline()
                    if not line:
                        raise RuntimeError(run.stderr.read())
                yield run
            finally:
                run.kill()
                run.communicate()
                target.kill()

    def ctrl_c(self, device):
        with self.attached(device) as run:
            run.send_signal(signal.SIGINT)
            summary = records_of(run.stdout.read())[-1]  # communicate() forgets what readline() has buffered
            run.wait(timeout=20)
        return difference("end", (run.returncode, summary["type"], summary["detached_cleanly"], summary["device"]),
                          (0, "summary", True, device.serial))

    def ends_on_the_device(self, device, what):
        with self.attached(device) as run:
            what(run)
            _, errors = run.communicate(timeout=30)
            problems = [] if device.agents_end_within(15) else [f"still runs: {device.agents()}"]
        return problems, run.returncode, errors

    def lost_connection(self, device, what):
        problems, status, errors = self.ends_on_the_device(device, what)
        self.world.connect(device)
        problems += difference("status", status, 1)
        if "the connection to the device ended during the run" not in errors:
            problems.append(errors)
        return problems

    def results_land_here(self, device):
        run = self.world.run
        (self.world.path / "numbers").write_text("2\n4\n")
        done = run(device, "attach", "--json", "--stack", "-d", "20s", "--if", "arg0 in @numbers", "--flamegraph", "flame.svg",
                   "--folded", "stacks.folded", "-o", "same.folded", "--command-output", "said", self.workload,
                   "work_six", "--", self.workload, "--calls", "5")
        problems = difference(f"status: {done.stderr}", done.returncode, 0)
        problems += difference("device of records", {record["device"] for record in records_of(done.stdout)}, {device.serial})
        folded = (self.world.path / "stacks.folded").read_text()
        problems += difference("an export of -o", (self.world.path / "same.folded").read_text(), folded)
        if not folded.endswith(";main;make_calls;work_six 2\n"):
            problems.append(f"folded: {folded!r}")
        if not (self.world.path / "flame.svg").read_text().startswith("<?xml"):
            problems.append("flame.svg is no drawing")
        if not (self.world.path / "said").read_text().endswith("done 5\n"):
            problems.append("the command's output is not here")
        done = run(device, "attach", "--graph", "--root-if", "arg0 in @numbers", "-d", "20s", self.workload, "work_six", "--",
                   self.workload, "--calls", "5")
        problems += difference(f"trees of a set that is here: {done.stderr}", done.stderr.count("graph: 2 trees shown, 3 left out"), 1)
        run(device, "attach", "-d", "20s", "--stack", "--stack-size", "256", "--keep-stacks", "kept", self.workload,
            "work_six", "--", self.workload, "--calls", "1")
        saved = [str(path) for path in (self.world.path / "kept").iterdir()]
        unwound = run(None, "debug-unwind", *saved)
        if not unwound.stdout.startswith("0\t0x") or "\twork_six (workload+" not in unwound.stdout:
            problems.append(f"debug-unwind {saved}: {unwound.stdout} {unwound.stderr}")
        there = self.world.path / "kept-there"
        done = run(device, "attach", "-d", "20s", "--stack", "--stack-size", "256", "--keep-stacks", f"device:{there}", self.workload,
                   "work_six", "--", self.workload, "--calls", "1")
        if not there.exists() or not list(there.iterdir()):
            problems.append(f"a folder of the device: {done.stderr}")
        return problems + difference("files on the device", os.listdir(device.folder), ["uprobectl"])

    def stacks_are_unwound_here(self, one, other):
        """With --unwind-on host frames, exports and messages are those of a run that unwinds on the device."""
        question = ["-d", "20s", "--stack", self.workload, "work_six", "--", self.workload, "--calls", "5"]
        unwinds = ["--unwind-on", "host", "--flamegraph", "near.svg", "--folded", "near.folded", "-o", "same-near.folded"]

        def frames(text):
            return [[{key: value for key, value in frame.items() if key != "pc"} for frame in record["stack"]]
                    for record in records_of(text) if record["type"] == "event"]
        far = self.world.run(one, "attach", "--json", "--folded", "far.folded", *question)
        near = self.world.run(one, "attach", "--json", *unwinds, *question)
        problems = difference(f"status: {near.stderr}", near.returncode, 0)
        problems += difference("frames", frames(near.stdout), frames(far.stdout))
        problems += difference("number of stacks", len(frames(near.stdout)), 5)
        problems += difference("device of records", {record["device"] for record in records_of(near.stdout)}, {one.serial})
        summary = records_of(near.stdout)[-1]
        problems += difference("stacks of the summary", [summary["stacks"], summary["stacks_truncated"]], [5, 0])
        path = self.world.path
        for file in ["near.folded", "same-near.folded"]:
            problems += difference(file, (path / file).read_text(), (path / "far.folded").read_text())
        if not (path / "near.svg").read_text().startswith("<?xml"):
            problems.append("near.svg is not a drawing")
        if near.stderr.count("events in") != 1 or near.stderr.count("probing 1 function") != 1:
            problems.append(f"messages: {near.stderr!r}")

        text = self.world.run(one, "attach", "--unwind-on", "host", "--stack-size", "256", "-o", "near.txt", *question)
        problems += difference("status as text", text.returncode, 0)
        problems += difference("text on stdout", text.stdout.replace("done 5\n", ""), "")
        if (path / "near.txt").read_text().count("#1 make_calls+0x") != 5:
            problems.append(f"text: {(path / 'near.txt').read_text()}")
        if "stacks truncated" in text.stderr and "--stack-size 512" not in text.stderr:
            problems.append(f"messages: {text.stderr!r}")

        (path / "kept.txt").write_text("kept\n")
        self.world.run(one, "attach", "--unwind-on", "host", "--append", "-o", "kept.txt", *question)
        kept = (path / "kept.txt").read_text()
        if not kept.startswith("kept\n") or kept.count("#1 make_calls+0x") != 5:
            problems.append(f"--append: {kept}")

        both = self.world.run([one, other], "attach", "--json", "--unwind-on", "host", "--folded", "both.folded", *question)
        events = [record["device"] for record in records_of(both.stdout) if record["type"] == "event"]
        problems += difference("events of two devices", sorted(events), sorted([one.serial] * 5 + [other.serial] * 5))
        files = sorted(file.name for file in path.glob("both*.folded"))
        if len(files) != 2 or any(not (path / file).read_text().endswith(";work_six 5\n") for file in files):
            problems.append(f"folded of two devices: {files}")

        wrong = self.world.run(one, "attach", "--unwind-on", "host", *question[2:4], "work_seven", *question[5:])
        problems += difference("status of a run that fails", wrong.returncode, 1)
        problems += difference("errors", wrong.stderr.count("no function 'work_seven'"), 1)
        return problems

    def programs_are_distinguished(self, device):
        """Of programs that are at one path one after the other each names its own stacks, or none."""
        turns, fixtures = self.world.path / "turns", self.workload.parent
        turns.write_text('cd "$2"; for made in over anew; do for letter in a b c a b c; do [ $made = over ] || rm -f program; '
                         'cat "$1/soak-short-$letter" >program; chmod 700 program; LD_LIBRARY_PATH=$1 ./program 3 0; done; done')
        run = self.world.run(device, "attach", "-jq", "-d", "60s", "--follow", "--args", "text:str@arg1", "--stack", "--unwind-on",
                             "host", fixtures / "libsoak.so", "soak_call", "--", "sh", turns, fixtures, self.world.path)
        events = [(event["arguments"][0]["value"][0], [frame["symbol"] or "" for frame in event["stack"]])
                  for event in records_of(run.stdout) if event["type"] == "event"]
        return difference(f"events ({run.stderr})", len(events), 36) + [
            f"{own}: {names}" for own, names in events if any(re.match(f"short_[^{own}]_", name) for name in names)]

    def parts_are_kept_here(self, one, other):
        """With --unwind-on host a second run, of any device, does not transfer the parts of files again."""
        home, counts = self.world.path / "cache-home", self.world.path / "bytes"
        folder = home / "uprobectl"
        client = self.world.path / "counting-adb"
        client.write_text(COUNTING_CLIENT.format(python=sys.executable, counts=counts))
        client.chmod(0o755)
        environment = {**self.world.environment, "XDG_CACHE_HOME": str(home), "ADB": str(client)}
        question = ["-d", "20s", "--stack", "--unwind-on", "host", self.workload, "work_six", "--", self.workload, "--calls", "5"]

        def ask(device, *options, **more):
            counts.write_text("")
            started = time.monotonic()
            done = self.world.run(device, "attach", *options, *question, env={**environment, **more})
            print(f"# {options} {more}: {counts.read_text().split()} bytes, {time.monotonic() - started:.2f} s", flush=True)
            frames = [[(frame["symbol"], frame["symbol_offset"], frame["build_id"]) for frame in record["stack"]]
                      for record in records_of(done.stdout) if record["type"] == "event"]
            if done.returncode or len(frames) != 5 or "work_six" not in str(frames):
                raise RuntimeError(f"{options}: {done.returncode} {done.stderr} {frames}")
            return sum(map(int, counts.read_text().split())), frames

        without, frames = ask(one, "--json", "--no-cache")
        problems = difference("UPROBECTL_NO_CACHE", ask(one, "--json", UPROBECTL_NO_CACHE="1")[1], frames)
        problems += difference("a cache that was not wanted", home.exists(), False)
        first, again = ask(one, "--json"), ask(other, "--json")
        entries = sorted(folder.glob("parts-*"))
        problems += difference("modes", {path.stat().st_mode & 0o777 for path in [folder, *entries]}, {0o700, 0o600})
        kept = sum(path.stat().st_size for path in entries)
        if not entries or first[0] < without * 0.9 or again[0] > first[0] - kept * 0.9:
            problems.append(f"bytes: {without} without, {first[0]} first, {again[0]} again; {kept} kept in {len(entries)}")

        def sums():
            return [hashlib.sha256(path.read_bytes().partition(b"\n")[2]).hexdigest() == path.name.removeprefix("parts-")
                    for path in entries]
        for path in entries:
            content = bytearray(path.read_bytes())
            content[-1] ^= 1
            path.write_bytes(content)
        damaged = ask(one, "--json")
        problems += difference("entries after damage", sums(), [True] * len(entries))
        if damaged[0] < first[0] * 0.9:
            problems.append(f"bytes with a damaged cache: {damaged[0]}, first {first[0]}")
        problems += difference("frames", [first[1], again[1], damaged[1]], [frames] * 3)
        self.world.run(one, "attach", "--save", "kept.run", *question, env=environment)
        self.world.run(one, "attach", "--no-cache", "--save", "not-kept.run", *question, env=environment)
        reports = [self.world.run(None, "report", "--json", file) for file in ("kept.run", "not-kept.run")]
        for report in reports:
            shown = [[frame["symbol"] for frame in record["stack"]] for record in records_of(report.stdout) if record["type"] == "event"]
            problems += difference("saved runs", shown, [[name for name, _, _ in stack] for stack in frames])
        self.world.run(one, "--clean", env=environment)
        return problems + difference("after --clean", folder.exists(), False)

    def plan_unwinds_here(self, device):
        """--unwind-on host of a plan is that of the run."""
        made = self.world.run(device, "attach", "--write-plan", "host.plan", "--stack", "--unwind-on", "host", self.workload, "work_six")
        problems = difference(f"--write-plan ({made.stderr})", made.returncode, 0)
        command = ["-d", "20s", "--", self.workload, "--calls", "5"]
        done = self.world.run(device, "attach", "--json", "--plan", "host.plan", "--folded", "plan.folded", *command)
        problems += difference(f"status ({done.stderr})", done.returncode, 0)
        folded = self.world.path / "plan.folded"
        if not folded.exists() or not folded.read_text().endswith(";main;make_calls;work_six 5\n"):
            problems.append(f"folded: {folded.exists() and folded.read_text()}")
        plan = (self.world.path / "host.plan").read_text()
        unknown = self.world.run(device, "attach", "--json", "--plan", "-", *command, input=plan)
        problems += difference("a plan of stdin", (unknown.returncode, unknown.stderr.splitlines()[-1]), (
            2, "  hint: with --adb and a plan of stdin or of the device: repeat --unwind-on host"))
        repeated = self.world.run(device, "attach", "--json", "--plan", "-", "--unwind-on", "host", *command, input=plan)
        return problems + difference(f"with the option ({repeated.stderr})", repeated.returncode, 0)

    def refusal_names_selinux(self):
        """The kernel answers EPERM, as if a domain of SELinux did not have the permission."""
        shell = self.world.path / "confined-shell"
        shell.write_text(CONFINED_SHELL)
        shell.chmod(0o755)
        device = self.world.add_device(is_root=True, options=["--shell", shell])
        problems = []
        text = ("uprobectl: error: cannot load a BPF program: the kernel does not permit it\n"
                "  hint: needs CAP_BPF and CAP_PERFMON (before Linux 5.8: CAP_SYS_ADMIN), or root\n")
        hint = "  hint: SELinux is enforcing (getenforce) and may deny it: look for 'avc: denied' in: dmesg | grep avc\n"
        for enforces, expected in [("1", text + hint), ("0", text)]:
            (device.root / "enforce").write_text(enforces)
            done = self.world.run(device, "attach", "-d", "5s", self.workload, "work_six", "--", self.workload)
            problems += difference(f"enforce {enforces}", (done.returncode, done.stderr), (1, expected))
        return problems

    def killed_host(self, device):
        problems, status, _ = self.ends_on_the_device(device, lambda run: run.kill())
        return problems + difference("status", status, -9)


def test_twenty(world, tap):
    devices = [world.add_device() for _ in range(20)]
    for device in devices:  # pushing is tested elsewhere
        shutil.copy(world.uprobectl, device.program)
    with world.start(devices, "resolve", "--json", LIBC, "malloc") as process:
        out = process.stdout.read()
        errors = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    found = {record["device"] for record in records_of(out) if record["type"] == "match"}
    problems = difference(f"devices ({errors})", found, {device.serial for device in devices})
    if usage.ru_maxrss > 150 << 10:
        problems.append(f"{usage.ru_maxrss} KiB of memory")
    problems += [f"{device.serial} still runs" for device in devices if not device.agents_end_within(5)]
    tap.check("twenty devices run side by side within 150 MiB, and nothing stays", problems)


def test_runs(world, killed, fixtures, tap):
    tests, ends, losses = Tests(world, fixtures), EndTests(world, fixtures), EndTests(killed, fixtures)
    symbols = SymbolTests(world, fixtures)
    aosp, magisk, plain = world.add_device(), world.add_device(su="magisk"), world.add_device(su=None)
    waiting, root = world.add_device(), world.add_device(is_root=True)
    lost = killed.add_device(is_root=True)
    questions = [
        ("a question has the same answer over adb and by hand", lambda: tests.equal_answers(aosp)),
        ("the program is installed once, and again if it has changed", lambda: tests.installs_once(aosp)),
        ("a device that is known runs at once, and a program that was damaged or replaced is found out",
         lambda: tests.starts_at_once(aosp)),
        ("arguments arrive as they are", lambda: tests.passes_arguments(aosp)),
        ("files of options are on the workstation", lambda: tests.carries_files(aosp)),
        ("a record of --verify is updated on the workstation", lambda: tests.updates_the_record(aosp, magisk)),
        ("names, types and lines are those of --symbols on the workstation", lambda: symbols.names_are_here(aosp)),
        ("--debuginfod downloads on the workstation", lambda: tests.downloads_here(magisk)),
        ("a pulled cable ends a download, and a record of --verify stays", lambda: tests.keeps_the_record(magisk)),
        ("usage errors and help need no device", lambda: tests.reports_usage_here(aosp)),
        ("a missing client or device is reported", lambda: tests.needs_a_device(aosp)),
        ("root comes from su, in both forms, or from a restart of adbd",
         lambda: tests.becomes_root(plain, aosp, magisk)),
        ("a device without space is reported, and nothing stays", lambda: tests.reports_a_full_device(aosp)),
        ("a device without the shell protocol is reported", tests.reports_an_old_device),
        ("devices run side by side, and one that fails does not end the others",
         lambda: tests.runs_side_by_side(aosp, magisk)),
        ("devices are listed with the verdict of doctor", lambda: tests.lists_devices(aosp, magisk)),
        ("a device that prints without end is given up", lambda: tests.bounds_the_verdict(aosp)),
        ("the program is removed on request", lambda: tests.cleans(magisk))]
    waits = [
        ("a run waits for a slow reader", lambda: tests.waits_for_a_slow_reader(waiting)),
        ("a run ends with its reader", lambda: tests.ends_with_its_reader(waiting)),
        ("an agent without a host ends", tests.agent_ends_alone)]
    results = [
        ("results land on the workstation", lambda: ends.results_land_here(root)),
        ("stacks are unwound on the workstation", lambda: ends.stacks_are_unwound_here(root, magisk)),
        ("parts of files are kept on the workstation", lambda: ends.parts_are_kept_here(root, magisk)),
        ("programs at one path are distinguished on the workstation", lambda: ends.programs_are_distinguished(root)),
        ("a plan says that stacks are unwound on the workstation", lambda: ends.plan_unwinds_here(root)),
        ("a refusal of the kernel names SELinux if it is enforcing", ends.refusal_names_selinux),
        ("names are resolved with the symbols of the workstation", lambda: symbols.symbols_are_here(root)),
        ("values, conditions and lines have the types of the workstation", lambda: symbols.types_are_here(root)),
        ("a plan has the types of the workstation", lambda: symbols.plans_have_types(root)),
        ("bodies of a function are chosen by the options, with symbols of the workstation", lambda: symbols.options_choose_bodies(root)),
        ("Ctrl-C ends a run as it does here", lambda: ends.ctrl_c(root))]
    cuts = [
        ("a pulled cable ends the run on the device", lambda: losses.lost_connection(lost, lambda run: lost.pull_cable())),
        ("a killed uprobectl ends the run on the device", lambda: losses.killed_host(lost)),
        ("a killed adb server ends the run on the device",
         lambda: losses.lost_connection(lost, lambda run: killed.adb("kill-server")))]
    groups = [questions, waits]
    if world.run(root, "doctor").returncode == 0:
        groups += [results, cuts]
    else:
        for name, _ in results + cuts:
            tap.skip(name, "machine uprobes unusable: doctor")
    Checks(tap).run(groups)


def main():
    uprobectl, fixtures, *more = sys.argv[1:]
    fixtures = Path(fixtures).resolve()
    tap = Tap()
    if more == ["--many"]:
        with World(uprobectl) as world:
            test_twenty(world, tap)
    else:
        # An adb server of their own for the tests that kill it or pull cables.
        with World(uprobectl) as world, World(uprobectl) as killed:
            test_runs(world, killed, fixtures, tap)
    tap.done()


main()
