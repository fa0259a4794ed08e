#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs on devices (--adb) that are guests: Debian's kernels with Android's layout (adb_guest_device.py), driven by
Debian's adb client.

Usage: adb_guests.py UPROBECTL FIXTURES --arm64 BUILD --cache DIR DEVICE...; prints TAP.
DEVICE: amd64-6.12, arm64-6.1 and the like. BUILD: the build folder of arm64, for its program and fixtures."""

import argparse
import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from adb_guest_device import GuestDevice, GuestError

# adb_guest_device has added the folders of these.
from adb_device_world import Checks, World, difference, holds_within, records_of, without_device  # isort: skip
from record_schema import RecordSchema  # isort: skip
from tap import Tap  # isort: skip

FOLDER = "/data/local/tmp"
PROGRAM = f"{FOLDER}/uprobectl"
APP = "com.example.greet"
APK = f"/data/app/~~a1B2==/{APP}-c3D4==/base.apk"
LIBRARIES = {"amd64": "lib/x86_64/libgreet.so", "arm64": "lib/arm64-v8a/libgreet.so"}
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
# After the last frame of the workstation (docs/android.md), and the time that detaching takes.
SECONDS_TO_END = 5 + 5
NAME = "two  blanks quote'd double\"d $HOME bang! back\\slash `id` ünï *;&|<>.apk"


class DeviceTests:
    def __init__(self, world, device, program):
        self.world, self.device, self.program, self.library = world, device, program, f"{APK}!/{LIBRARIES[device.arch]}"
        self.schema = RecordSchema()

    def shell(self, command, check=True):
        done = self.world.adb("-s", self.device.serial, "shell", command)
        if check and done.returncode:
            raise RuntimeError(f"{command}: {done.returncode} {done.stdout}{done.stderr}")
        return done.stdout

    def run(self, *arguments):
        return self.world.run(self.device, *arguments)

    def set_mark(self, name):
        """Files that the device looks at (adb_device.sh, adb_device.py)."""
        mark = self.world.path / "mark"
        mark.touch()
        self.world.adb("-s", self.device.serial, "push", str(mark), f"/{name}")

    def program_has(self):
        return self.shell(f"sha256sum {PROGRAM}").split()[0]

    def start_app(self):
        """The app calls greet_add 50 times a second."""
        self.shell(f"su u0_a123 -c \"exec -a {APP} /fixtures/apk-host '{self.library}' greet_add 1000000 --delay-us 20000\" "
                   "</dev/null >/dev/null 2>&1 &")

    def without_root(self):
        """Commands run as the shell user. `resolve` needs no more, and pushes the program; attach says what is missing."""
        refused = self.run("attach", self.library, "greet_add")
        problems = difference("attach", (refused.returncode, refused.stdout, refused.stderr),
                              (1, "", f"uprobectl: error: {self.device.serial}: this needs root, and the device has no usable su\n"
                               "  hint: on userdebug and eng builds, let adbd restart as root: --adb-root\n"))
        problems += difference("files", self.shell(f"ls {FOLDER}"), "")
        done = self.run("resolve", self.library, "greet_add")
        problems += difference(f"resolve ({done.stderr})", done.returncode, 0)
        problems += difference("the program", self.shell(f"stat -c '%n %a %u' {FOLDER}/*"), f"{PROGRAM} 755 2000\n")
        listed = self.world.run(None, "devices", "--json", f"--adb={self.device.serial}")
        record = records_of(listed.stdout)[0]
        problems += difference("verdict", (record["root"], record["attach"], record["reason"]),
                               ("no", False, "cannot load a BPF program: the kernel does not permit it"))
        return problems + difference("facts", (record["model"], record["android"], record["abi"]),
                                     ("Guest Device", "14", {"amd64": "x86_64", "arm64": "arm64-v8a"}[self.device.arch]))

    def becomes_root(self):
        done = self.run("--adb-root", "doctor")
        problems = difference(f"doctor ({done.stderr})", done.returncode, 0)
        problems += difference("uid", self.shell("id -u"), "0\n")
        listed = self.world.run(None, "devices", "--json", f"--adb={self.device.serial}")
        record = records_of(listed.stdout)[0]
        problems += [problem for line in listed.stdout.splitlines() if (problem := self.schema.problem(line))]
        return problems + difference("verdict", (record["root"], record["attach"]), ("adbd", True))

    def first_event(self):
        """From a fresh device to the first named event, and again; beside the way by hand."""
        self.start_app()
        attach = ["attach", "--json", "-d", "60s", "--app", APP, "libgreet.so", "greet_add"]
        by_hand = ["adb", "-s", self.device.serial]

        def until_event(words):
            with subprocess.Popen(words, env=self.world.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True) as run:
                line = next((line for line in run.stdout if '"event"' in line), None)
                ended = time.monotonic()
                run.send_signal(signal.SIGINT)
                run.communicate(timeout=30)
            if not line or '"symbol":"greet_add"' not in line:
                raise RuntimeError(f"no event of {words}")
            return ended

        def fresh():
            return self.shell(f"rm -f {PROGRAM}")

        seconds = {}
        for name, prepare, commands in [
                ("first run, --adb", fresh, [self.world.words(self.device, *attach)]),
                ("again, --adb", None, [self.world.words(self.device, *attach)]),
                ("first run, by hand", fresh, [[*by_hand, "push", self.program, PROGRAM], [*by_hand, "shell", f"chmod 755 {PROGRAM}"],
                                               [*by_hand, "shell", shlex.join([PROGRAM, *attach])]]),
                ("again, by hand", None, [[*by_hand, "shell", shlex.join([PROGRAM, *attach])]])]:
            if prepare:
                prepare()
            started = time.monotonic()
            for words in commands[:-1]:
                subprocess.run(words, env=self.world.environment, check=True, capture_output=True)
            seconds[name] = until_event(commands[-1]) - started
            self.note(f"{name}: {len(commands)} commands, {seconds[name]:.2f} s")
            if not self.nothing_is_left():
                return [f"{name}: {self.left()}"]
        return []

    def ends(self):
        """Ends the guest, which looks whether its kernel has complained."""
        self.shell("kill $(pidof python3.11)", check=False)
        return self.device.end()

    def note(self, text):
        print(f"# {self.device.name}: {text}", flush=True)

    def left(self):
        """What a run must not leave: processes, BPF programs and links, lines of tracefs."""
        return self.shell("pidof uprobectl; /fixtures/bpf-census; cat /sys/kernel/tracing/uprobe_events", check=False)

    def nothing_is_left(self):
        return holds_within(SECONDS_TO_END, lambda: not self.left())

    def replaces_another_program(self):
        expected = self.program_has()
        other = self.world.path / f"other-{self.device.serial}"
        other.write_text("#!/bin/sh\necho an older version\n")
        self.world.adb("-s", self.device.serial, "push", str(other), PROGRAM)
        done = self.run("resolve", self.library, "greet_add")
        problems = difference(f"status ({done.stderr})", done.returncode, 0)
        problems += difference("program", self.program_has(), expected)
        return problems + difference("files", self.shell(f"ls {FOLDER}"), "uprobectl\n")

    def same_answers(self):
        """The same question through --adb and by hand: the same records, but for times, pids, processors and the device."""
        copy = f"{FOLDER}/{NAME}"
        self.shell(f"cp {shlex.quote(APK)} {shlex.quote(copy)}")
        named = f"{copy}!/{LIBRARIES[self.device.arch]}"
        problems = []
        for question in [["resolve", self.library, "greet*"], ["resolve", named, "greet_*"], ["resolve", named, "no such $(name)"],
                         ["list-symbols", APK], ["list-symbols", copy], ["doctor"], ["attach", named, "no 'such' $name!"],
                         *(["attach", "-d", "20s", "--entry", "-r", "--stack", library, "greet_add", "greet_total", "--",
                            "/fixtures/apk-host", library, "greet_total", "5"] for library in (self.library, named))]:
            words = [question[0], "--json", *question[1:]]
            far = self.run(*words)
            here = self.world.adb("-s", self.device.serial, "shell", shlex.join([PROGRAM, *words]))
            # Commands in hints are those of the workstation.
            far_records, here_records = (
                without_device(records_of(done.stdout.replace(f"uprobectl --adb={self.device.serial} ", "uprobectl ")))
                for done in (far, here))
            problems += difference(f"{question[:3]}: status ({far.stderr})", far.returncode, here.returncode)
            problems += difference(f"{question[:3]}", comparable(far_records), comparable(here_records))
            problems += difference("devices", {record.get("device") for record in records_of(far.stdout)},
                                   {self.device.serial} if here.stdout else set())
            if question[0] == "attach" and "--" in question:
                hits = [record["symbol"] for record in far_records if record["type"] == "event"]
                problems += difference("hits", sorted(hits), ["greet_add"] * 10 + ["greet_total"] * 10)
        self.shell(f"rm {shlex.quote(copy)}")
        return problems

    @contextlib.contextmanager
    def attached(self):
        """A run of two minutes that has had a hit."""
        run = self.world.start(self.device, "attach", "--json", "-d", "120s", "--app", APP, "libgreet.so", "greet_add")
        try:
            line = run.stdout.readline()
            while '"event"' not in line:
                if not line:
                    raise RuntimeError(run.stderr.read())
                line = run.stdout.readline()
            yield run
        finally:
            run.kill()
            run.communicate()

    def ctrl_c(self):
        with self.attached() as run:
            run.send_signal(signal.SIGINT)
            records = records_of(run.stdout.read())
            run.wait(timeout=30)
        problems = difference("end", (run.returncode, records[-1]["type"], records[-1]["detached_cleanly"]), (0, "summary", True))
        return problems + ([] if self.nothing_is_left() else [self.left()])

    def loses(self, what, message="the connection to the device ended during the run"):
        with self.attached() as run:
            what()
            _, errors = run.communicate(timeout=30)
        self.world.connect(self.device)
        problems = difference("status", run.returncode, 1)
        if not re.search(f"uprobectl: error: {self.device.serial}: {message}", errors):
            problems.append(errors)
        return problems

    def pull_cable(self):
        self.shell("kill -USR1 $(pidof python3.11)", check=False)

    def pulled_cable(self):
        problems = self.loses(self.pull_cable)
        return problems + ([] if self.nothing_is_left() else [self.left()])

    def killed_server(self):
        problems = self.loses(lambda: self.world.adb("kill-server"))
        return problems + ([] if self.nothing_is_left() else [self.left()])

    def rebooted(self):
        """What was on /data is gone after it, and so is root."""
        def reboot():
            self.world.adb("-s", self.device.serial, "reboot")
            self.device.wait_for_boot()
        # The guest goes off without a word, and the next kernel may or may not reset its connections.
        problems = self.loses(reboot, "(the connection to the device ended during the run|the device has not answered for 10 s)")
        problems += difference("files", self.shell(f"ls {FOLDER}"), "")
        done = self.run("--adb-root", "doctor")
        problems += difference(f"doctor ({done.stderr})", (done.returncode, self.shell(f"ls {FOLDER}")), (0, "uprobectl\n"))
        return problems

    def no_space(self):
        self.shell(f"rm {PROGRAM}; dd if=/dev/zero of=/data/fill bs=1M count=50 2>/dev/null")
        refused = self.run("resolve", self.library, "greet_add")
        self.shell("rm /data/fill")
        message = re.sub("failed to copy '.*' to '.*'", "failed to copy", refused.stderr)  # adb's, with a pid
        problems = difference("status and message", (refused.returncode, message), (
            1, f"uprobectl: error: {self.device.serial}: cannot install {PROGRAM} on the device: failed to copy: "
               "remote write failed: No space left on device\n  hint: choose another folder: --device-dir DIR\n"))
        problems += difference("files", self.shell(f"ls {FOLDER}"), "")
        done = self.run("resolve", self.library, "greet_add")
        return problems + difference(f"afterwards ({done.stderr})", done.returncode, 0)

    def confined(self):
        """Root without capabilities, as in a domain of SELinux."""
        self.set_mark("confined")
        refused = self.run("attach", "-d", "5s", self.library, "greet_add")
        listed = self.world.run(None, "devices", "--json", f"--adb={self.device.serial}")
        record = records_of(listed.stdout)[0]
        problems = difference("attach", (refused.returncode, refused.stdout, refused.stderr),
                              (1, "", "uprobectl: error: cannot load a BPF program: the kernel does not permit it\n"
                               "  hint: needs CAP_BPF and CAP_PERFMON (before Linux 5.8: CAP_SYS_ADMIN), or root\n"
                               "  hint: SELinux is enforcing (getenforce) and may deny it: look for 'avc: denied' in: dmesg | grep avc\n"))
        self.shell("rm /confined")
        return problems + difference("verdict", (record["root"], record["attach"], record["reason"]),
                                     ("adbd", False, "cannot load a BPF program: the kernel does not permit it: "
                                      "BPF ignores capabilities of a user namespace"))

    def groups(self):
        return [(f"{self.device.name}: {name}", check) for name, check in [
            ("without root, a fresh device resolves, and attach says what is missing", self.without_root),
            ("adbd restarts as root", self.becomes_root),
            ("an app's first event", self.first_event),
            ("another program on the device is replaced", self.replaces_another_program),
            ("a question has the same answer over adb and by hand", self.same_answers),
            ("Ctrl-C ends a run", self.ctrl_c),
            ("a pulled cable ends the run on the device", self.pulled_cable),
            ("a killed adb server ends the run on the device", self.killed_server),
            ("a device without space is reported, and nothing stays", self.no_space),
            ("root that the kernel refuses everything is reported", self.confined),
            ("a device that reboots ends the run, and gets the program again", self.rebooted)]]


def comparable(records):
    """Without what differs between two runs of a question."""
    differs = re.compile(r"time_ns|duration_ns|pid|ns_pid|tid|cpu|clocks|latency_ns|pc")

    def strip(value):
        if isinstance(value, dict):
            return {key: strip(each) for key, each in value.items() if not differs.fullmatch(key)}
        return [strip(each) for each in value] if isinstance(value, list) else value
    return strip(records)


class SeveralTests:
    """A run on all devices."""

    def __init__(self, world, tests):
        self.world, self.tests = world, tests
        self.serials = {each.device.serial for each in tests}

    def events_of_all(self):
        for each in self.tests:
            each.start_app()
        run = self.world.run(None, "--adb=all", "attach", "--json", "--max-events", "20", "-d", "60s", "--app", APP, "libgreet.so",
                             "greet_add")
        records = records_of(run.stdout)
        events = {serial: sum(record["type"] == "event" and record["device"] == serial for record in records)
                  for serial in self.serials}
        problems = difference(f"events ({run.stderr})", events, dict.fromkeys(self.serials, 20))
        problems += [problem for line in run.stdout.splitlines() if (problem := self.tests[0].schema.problem(line))]
        last = records[-1]
        return problems + difference("summary", (run.returncode, last["type"], last["devices"], last["events"], last["failed"]),
                                     (0, "devices_summary", len(self.tests), 20 * len(self.tests), []))

    def goes_on_without_one(self):
        """A device that is lost does not end the others."""
        lost = self.tests[0]
        run = self.world.start(None, "--adb=all", "attach", "--json", "-d", "10s", "--app", APP, "libgreet.so", "greet_add")
        records, seen = [], set()
        for line in run.stdout:
            record = records_of(line)[0]
            records.append(record)
            if record["type"] != "event" or seen == self.serials:
                continue
            seen.add(record["device"])
            if seen == self.serials:
                lost.pull_cable()
        run.wait(timeout=60)
        errors = run.stderr.read()
        summaries = {record["device"] for record in records if record["type"] == "summary"}
        problems = difference(f"summaries ({errors})", summaries, self.serials - {lost.device.serial})
        return problems + difference("end", (run.returncode, records[-1]["type"], records[-1].get("failed")),
                                     (1, "devices_summary", [lost.device.serial]))

    def groups(self):
        return [(f"{len(self.tests)} devices: {name}", check) for name, check in [
            ("each has its events", self.events_of_all), ("one that is lost does not end the others", self.goes_on_without_one)]]


def make_release(programs, folder):
    """The folder of a release: the program of this machine, and beside it those of devices. Its path."""
    folder.mkdir()
    for arch, program in programs.items():
        native = MACHINES[arch] == os.uname().machine
        shutil.copy(program, folder / ("uprobectl" if native else f"uprobectl-{MACHINES[arch]}"))
    return folder / "uprobectl"


def test_devices(devices, programs, tap):
    with contextlib.ExitStack() as stack:
        release = make_release(programs, Path(stack.enter_context(tempfile.TemporaryDirectory())) / "release")
        # An adb server for each device: a test kills it.
        tests = [DeviceTests(stack.enter_context(World(release, FOLDER)), device, programs[device.arch]) for device in devices]
        for each in tests:
            seconds = each.device.wait_for_boot()
            each.note(f"booted after {seconds:.1f} s")
            each.world.connect(each.device)
        Checks(tap).run([each.groups() for each in tests])
        if len(tests) > 1:
            world = stack.enter_context(World(release, FOLDER))
            for each in tests:
                world.connect(each.device)
            Checks(tap).run([SeveralTests(world, tests).groups()])
        for each in tests:
            tap.check(f"{each.device.name}: the kernel has nothing to complain about", each.ends())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("uprobectl", type=Path)
    parser.add_argument("fixtures", type=Path)
    parser.add_argument("--arm64", type=Path, required=True)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("devices", nargs="+")
    options = parser.parse_args()
    programs = {"amd64": options.uprobectl, "arm64": options.arm64 / "src/cli/uprobectl"}
    fixtures = {"amd64": options.fixtures, "arm64": options.arm64 / "fixtures"}
    tap, devices = Tap(), []
    try:
        for name in options.devices:
            arch, series = name.split("-")
            if not programs[arch].exists():
                tap.skip(name, f"no program for {arch}")
                continue
            try:
                devices.append(GuestDevice(arch, series, options.cache, fixtures[arch]))
            except GuestError as error:
                tap.skip(name, str(error).splitlines()[0])
        if devices:
            test_devices(devices, {arch: path for arch, path in programs.items() if path.exists()}, tap)
    finally:
        for device in devices:
            device.close()
    tap.done()


main()
