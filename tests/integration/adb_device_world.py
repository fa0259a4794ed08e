# SPDX-License-Identifier: Apache-2.0
"""Devices for tests of --adb: Debian's adb client with a server of its own, and devices of tests/adb_device.py."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

DEVICE_PROGRAM = Path(__file__).resolve().parent.parent / "adb_device.py"

GETPROP = """#!/bin/sh
case $1 in
  ro.product.cpu.abi) uname -m ;;
  ro.product.model) echo "Test  Device" ;;
  ro.build.version.release) echo 14 ;;
esac
"""
# Root from the start, or while su runs, or after `adb root`.
ID = """#!/bin/sh
if [ -n "$AS_ROOT" ] || [ -e "$DEVICE_ROOT/is-root" ]; then echo 0; else echo 2000; fi
"""
# A device without su, with that of AOSP, and with that of Magisk.
SU = {
    None: "#!/bin/sh\necho 'su: not found' >&2\nexit 127\n",
    "aosp": """#!/bin/sh
[ "$1" = 0 ] || { echo "su: invalid uid/gid '$1'" >&2; exit 1; }
shift
echo "$*" >>"$DEVICE_ROOT/su.log"
AS_ROOT=1 exec "$@"
""",
    "magisk": """#!/bin/sh
[ "$1" = -c ] || { echo "su: unknown user $1" >&2; exit 1; }
echo "$2" >>"$DEVICE_ROOT/su.log"
AS_ROOT=1 exec sh -c "$2"
""",
}


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


class TestDevice:
    """shared: the path that all devices of a test have for the folder of the program."""

    def __init__(self, root, shared, su, is_root, options):
        self.root = root
        self.folder = root / "data/local/tmp"
        self.folder.mkdir(parents=True)
        programs = root / "system/bin"
        programs.mkdir(parents=True)
        for name, text in {"getprop": GETPROP, "id": ID, "su": SU[su]}.items():
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        if is_root:
            (root / "is-root").touch()
        # A mount namespace for each device: one path of uprobectl is another folder on each.
        mount = 'mount --bind "$0" "$1" && shift && exec "$@"'
        self.process = subprocess.Popen(
            ["unshare", "-m" if os.geteuid() == 0 else "-rm", "sh", "-c", mount, self.folder, shared,
             sys.executable, DEVICE_PROGRAM, "--root", root, *options],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.serial = f"127.0.0.1:{self.process.stdout.readline().split()[-1]}"

    @property
    def program(self):
        return self.folder / "uprobectl"

    def pull_cable(self):
        self.process.send_signal(signal.SIGUSR1)

    def agents(self):
        """The pids of the agents and runs of this device."""
        pids = []
        mark = f"DEVICE_ROOT={self.root}".encode()
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if (entry.name.isdigit() and mark in (entry / "environ").read_bytes().split(b"\0")
                        and b"--agent" in (entry / "cmdline").read_bytes().split(b"\0")):
                    pids.append(int(entry.name))
        return pids

    def agents_end_within(self, seconds):
        return holds_within(seconds, lambda: not self.agents())

    def close(self):
        self.process.kill()
        self.process.wait()


def holds_within(seconds, condition):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def records_of(text):
    return [json.loads(line) for line in text.splitlines()]


def without_device(records):
    return [{key: value for key, value in record.items() if key != "device"} for record in records]


def difference(what, got, expected):
    return [] if got == expected else [f"{what}: {got!r}", f"expected: {expected!r}"]


class World:
    """A folder, an adb server on a port of its own, and the devices. A context manager.

    device_folder: the folder of the program on devices that the caller connects; by default that of those
    which add_device() makes here."""

    def __init__(self, uprobectl, device_folder=None):
        self.uprobectl = str(Path(uprobectl).resolve())
        self.temporary = tempfile.TemporaryDirectory(prefix="uprobectl-adb-")
        self.path = Path(self.temporary.name)
        self.folder = device_folder or self.path / "device-tmp"
        if not device_folder:
            self.folder.mkdir()
        self.devices = []
        self.environment = {
            **{key: value for key, value in os.environ.items()
               if key not in ("ADB", "ANDROID_SERIAL", "ANDROID_ADB_SERVER_ADDRESS", "ADB_SERVER_SOCKET")},
            "ANDROID_ADB_SERVER_PORT": str(free_port()), "HOME": str(self.path),
            "ADB_LOCAL_TRANSPORT_MAX_PORT": "5553"}  # no emulators of others

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.adb("kill-server")
        for device in self.devices:
            device.close()
        self.temporary.cleanup()

    def adb(self, *arguments):
        return subprocess.run(["adb", *arguments], env=self.environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60, check=False)

    def add_device(self, su="aosp", is_root=False, options=()):
        device = TestDevice(self.path / f"device-{len(self.devices)}", self.folder, su, is_root, options)
        self.devices.append(device)
        self.connect(device)
        return device

    def connect(self, device):
        self.adb("connect", device.serial)

        def is_connected():
            lines = self.adb("devices").stdout.splitlines()
            return f"{device.serial}\tdevice" in lines

        if not holds_within(20, is_connected):
            raise RuntimeError(f"adb does not connect to {device.serial}: {self.adb('devices').stdout}")

    def words(self, device, *arguments):
        """A command on a device, or on several."""
        if device is None:
            return [self.uprobectl, *map(str, arguments)]
        devices = device if isinstance(device, list) else [device]
        serials = ",".join(each.serial for each in devices)
        return [self.uprobectl, f"--adb={serials}", "--device-dir", str(self.folder), *map(str, arguments)]

    def start(self, device, *arguments, **options):
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(self.words(device, *arguments),
                                **{**streams, "env": self.environment, "text": True, "cwd": self.path, **options})

    def run(self, device, *arguments, **options):
        return subprocess.run(self.words(device, *arguments),
                              **{"env": self.environment, "capture_output": True, "text": True, "timeout": 120,
                                 "cwd": self.path, "check": False,
                                 **({} if "input" in options else {"stdin": subprocess.DEVNULL}), **options})


class Checks:
    """Checks in groups that run side by side: most of their time is waiting."""

    def __init__(self, tap):
        self.tap, self.lock = tap, threading.Lock()

    def run(self, groups):
        """groups: lists of (name, function that returns the problems)."""
        threads = [threading.Thread(target=self.run_group, args=(group,)) for group in groups]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def run_group(self, group):
        for name, problems in group:
            try:
                found = problems()
            except Exception as error:  # a problem of the test itself must not end the others
                found = [f"{type(error).__name__}: {error}"]
            with self.lock:
                self.tap.check(name, found)
