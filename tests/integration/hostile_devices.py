#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Data that a hostile device may send. The client is this script, which plays the device.
Usage: hostile_devices.py UPROBECTL; prints TAP."""

import hashlib
import json
import os
import platform
import pty
import resource
import select
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap

MARK = b"\0uprobectl agent\0"
HELLO, EXIT, RECORDS, MESSAGES, FILE_REQUEST = 1, 35, 32, 33, 64
EVIL = b"\x1b[2J\x1b]0;title\x07\x1b]52;c;cHduZWQ=\x07 \xe2\x80\xae \xc2\x9b2J \x9b"
SHOWN = rb"\x1b[2J\x1b]0;title\x07\x1b]52;c;cHduZWQ=\x07 \xe2\x80\xae \xc2\x9b2J \x9b"
MEMORY = 200 << 20  # bytes; a run with a device takes some 30 MB


def frame(kind, payload=b""):
    return struct.pack("<IB", len(payload), kind) + payload


def play(words):
    """The client: answers as a device whose program is already installed."""
    def say(data):
        os.write(1, data)

    if words[0] == "devices":
        return say(b"List of devices attached\nevil\tdevice\n")
    if "--agent" not in words[-1]:
        return say(f"uid=0\nmachine={platform.machine()}\nkernel=6\nabi=x\nmodel=m\nandroid=1\n"
                   f"sha256={os.environ['PROGRAM_SHA256']}  x\n".encode())
    hello = frame(HELLO, struct.pack("<H", 2) + os.environ["PROGRAM_VERSION"].encode())
    mode = os.environ["DEVICE_MODE"]
    if mode == "escapes":
        say(b"noise " + EVIL + b"\n" + MARK + hello + frame(MESSAGES, b"message " + EVIL + b"\n") +
            frame(RECORDS, b"record " + EVIL + b"\n") + frame(EXIT, b"\0"))
        return None
    if mode == "requests":  # and never reads the answers
        say(MARK + hello)
        requests = b"".join(frame(FILE_REQUEST, struct.pack("<IBIIH", i, 0, 0, 0, 2) + b"/x") for i in range(4000))
        while True:
            say(requests)
    if mode == "messages":
        say(MARK + hello)
        while True:
            say(frame(MESSAGES, b"m" * 65535 + b"\n"))
    if mode == "after the end":
        say(MARK + hello + frame(EXIT, b"\3"))
        while True:
            say(b"x" * 65536)
    raise ValueError(mode)


class Devices:
    def __init__(self, uprobectl, folder):
        self.uprobectl = uprobectl
        version = subprocess.run([uprobectl, "--version"], capture_output=True, text=True, check=True)
        client = folder / "adb"
        client.write_text(f"#!/bin/sh\nexec {sys.executable} {Path(__file__).resolve()} --client \"$@\"\n")
        client.chmod(0o755)
        self.environment = {**os.environ, "ADB": str(client), "PROGRAM_VERSION": version.stdout.split()[1],
                            "PROGRAM_SHA256": hashlib.sha256(Path(uprobectl).read_bytes()).hexdigest()}

    def command(self, *options):
        return [self.uprobectl, "--adb", "--no-cache", "--device-dir", "/tmp", "resolve", *options, "/x", "y"]

    def run(self, mode, *options, **streams):
        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY + (1 << 30), MEMORY + (1 << 30)))

        return subprocess.Popen(self.command(*options), stdin=subprocess.DEVNULL, preexec_fn=limit,
                                env={**self.environment, "DEVICE_MODE": mode}, **streams)

    def on_terminal(self, mode):
        """What reaches the terminal."""
        process, terminal = pty.fork()
        if process == 0:
            os.execve(self.uprobectl, self.command(), {**self.environment, "DEVICE_MODE": mode})
        shown = b""
        while select.select([terminal], [], [], 30)[0]:
            try:
                data = os.read(terminal, 65536)
            except OSError:
                break
            shown += data
        os.waitpid(process, 0)
        return shown.replace(b"\r\n", b"\n")


def memory_of(process):
    """The largest resident set so far, in bytes."""
    status = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def escapes(devices):
    expected = [b"noise " + SHOWN, b"message " + SHOWN, b"record " + SHOWN]
    problems = []
    shown = devices.on_terminal("escapes").splitlines()
    if sorted(shown) != sorted(expected):
        problems.append(f"on a terminal: {shown}")
    piped = devices.run("escapes", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = piped.communicate(timeout=60)
    if (out.splitlines(), err.splitlines()) != (expected[2:], expected[:2]):
        problems.append(f"in pipes: {out}, {err}")
    as_json = devices.run("escapes", "--json", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    out = as_json.communicate(timeout=60)[0]
    if json.loads(b'"' + out.rstrip(b"\n") + b'"') != "record " + EVIL[:-1].decode() + "\ufffd":
        problems.append(f"as JSON: {out}")
    return problems


def requests(devices):
    with devices.run("requests", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        most = 0
        begin = time.monotonic()
        while process.poll() is None and time.monotonic() - begin < 60:
            try:
                most = max(most, memory_of(process))
            except (OSError, IndexError):
                break
            time.sleep(0.1)
        process.kill()
        said = process.stderr.read().decode()
    problems = [] if "has not read the workstation's answers for 10 s" in said else [f"it said: {said}"]
    return problems + ([f"{most >> 20} MiB"] if most > MEMORY else [])


def messages(devices):
    """Nobody reads stderr."""
    read_end, write_end = os.pipe()
    with devices.run("messages", stdout=subprocess.DEVNULL, stderr=write_end) as process:
        time.sleep(5)
        most = memory_of(process)
        process.kill()
    os.close(read_end)
    os.close(write_end)
    return [f"{most >> 20} MiB"] if most > MEMORY else []


def after_the_end(devices):
    with devices.run("after the end", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        try:
            process.wait(timeout=40)
        except subprocess.TimeoutExpired:
            process.kill()
            return ["it does not end"]
    return [] if process.returncode == 3 else [f"status {process.returncode}"]


def main():
    if sys.argv[1] == "--client":
        words = sys.argv[2:]
        try:
            play(words[2:] if words[0] == "-s" else words)
        except BrokenPipeError:
            pass
        return
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        devices = Devices(sys.argv[1], Path(folder))
        tap.check("control characters of a device do not reach the terminal", escapes(devices))
        tap.check("a device that asks and does not read the answers is given up, in little memory", requests(devices))
        tap.check("messages that nobody reads are not read from the device", messages(devices))
        tap.check("a device that goes on printing after its run is not waited for", after_the_end(devices))
    tap.done()


if __name__ == "__main__":
    main()
