#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""debuginfod.py UPROBECTL
--debuginfod with a debuginfod-find that this test writes, and with the real one and a server of its
own if they are installed. Addresses are those of nm and llvm-dwarfdump's rows. Prints TAP."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap

SOURCE = """volatile int sink;
static __attribute__((noinline)) int hidden(int price) {
  sink = price;
  return sink + 1;
}
int main(int argc, char **argv) {
  return hidden(argc);
}
"""
FAKE = """#!/bin/sh
echo "$*" >> {log}
{answer}
"""


class Case:
    """A stripped program, its debug file elsewhere, and a folder for PATH."""

    def __init__(self, folder):
        self.folder = folder
        self.source = folder / "src" / "shop.c"
        self.source.parent.mkdir()
        self.source.write_text(SOURCE)
        self.program = folder / "shop"
        subprocess.run(["gcc", "-g", "-O2", "-Wl,--build-id", self.source, "-o", self.program], check=True)
        self.debug = folder / "kept" / "shop.debug"
        self.debug.parent.mkdir()
        subprocess.run(["objcopy", "--only-keep-debug", self.program, self.debug], check=True)
        names = subprocess.run(["nm", self.program], capture_output=True, text=True, check=True).stdout
        self.hidden = int(re.search(r"^([0-9a-f]+) t hidden$", names, re.M)[1], 16)
        subprocess.run(["strip", self.program], check=True)
        notes = subprocess.run(["readelf", "-n", self.program], capture_output=True, text=True, check=True)
        self.build_id = re.search(r"Build ID: (\w+)", notes.stdout)[1]
        self.commands = folder / "commands"
        self.commands.mkdir()
        self.log = folder / "log"
        self.environment = {"PATH": str(self.commands), "DEBUGINFOD_URLS": "http://127.0.0.1:9"}

    def answer(self, text):
        """What the fake does: shell commands."""
        self.log.unlink(missing_ok=True)
        fake = self.commands / "debuginfod-find"
        fake.write_text(FAKE.format(log=self.log, answer=text))
        fake.chmod(0o755)

    def asked(self):
        return self.log.read_text().splitlines() if self.log.exists() else []


def run(uprobectl, case, *words, **more):
    return subprocess.run([uprobectl, *map(str, words)], capture_output=True, text=True, timeout=60,
                          env=case.environment | more)


def addresses(result):
    records = map(json.loads, result.stdout.splitlines())
    return [int(record["address"], 16) for record in records if record["type"] == "match"]


def expect(tap, name, condition, result):
    tap.check(name, [] if condition else [result.stdout, result.stderr])


def check_answers(tap, uprobectl, case):
    case.answer(f"echo {case.debug}")
    result = run(uprobectl, case, "resolve", "--json", case.program, "hidden")
    expect(tap, "without the option nothing is asked", result.returncode == 1 and not case.asked(), result)
    result = run(uprobectl, case, "resolve", "--json", "--debuginfod", case.program, "hidden")
    expect(tap, "a function of the downloaded debug file", addresses(result) == [case.hidden], result)
    tap.check("one question, by the build id",
              [] if case.asked() == [f"debuginfo {case.build_id}"] else case.asked())

    result = run(uprobectl, case, "resolve", "--json", "--debuginfod", case.program, "shop.c:3")
    expect(tap, "a line of it", addresses(result) == [case.hidden], result)
    result = run(uprobectl, case, "list-args", "--debuginfod", case.program, "hidden")
    expect(tap, "list-args", "price" in result.stdout, result)

    case.answer(f'test "$1" = debuginfo && echo {case.debug} || echo {case.folder}/kept/text.c')
    (case.folder / "kept" / "text.c").write_text(SOURCE)
    case.source.rename(case.source.with_suffix(".moved"))
    result = run(uprobectl, case, "list-lines", "--debuginfod", case.program, "shop.c")
    case.source.with_suffix(".moved").rename(case.source)
    expect(tap, "list-lines downloads the source", "return sink + 1;" in result.stdout, result)
    tap.check("by its path", [] if f"source {case.build_id} {case.source}" in case.asked() else case.asked())

    result = run(uprobectl, case, "attach", "--dry-run", "--debuginfod", case.program, "hidden")
    expect(tap, "attach", "hidden" in result.stdout and result.returncode == 0, result)


def check_wrong_answers(tap, uprobectl, case):
    other = case.folder / "other"
    subprocess.run(["gcc", "-g", "-Wl,--build-id=0x1234", case.source, "-o", other], check=True)
    for name, answer, message in (
            ("a file with another build id is not used", f"echo {other}", "its build id is 1234, not"),
            ("a folder is not used", f"echo {case.folder}", "is a directory, not a file"),
            ("a missing file is not used", "echo /nonexistent/x", "/nonexistent/x: no such file"),
            ("a relative path is not used", "echo kept/shop.debug", "has no debug file for build id"),
            ("the reason of a failure is shown", "echo 'Server query failed' >&2; exit 1",
             f"has no debug file for build id {case.build_id}: Server query failed"),
            ("a path with a failure is not used", f"echo {case.debug}; exit 1", "has no debug file")):
        case.answer(answer)
        result = run(uprobectl, case, "resolve", "--debuginfod", case.program, "hidden")
        expect(tap, name, result.returncode == 1 and result.stderr.count(message) == 1, result)

    case.answer("exit 1")
    result = run(uprobectl, case, "resolve", "--debuginfod", case.program, "hidden", DEBUGINFOD_URLS="")
    expect(tap, "without servers the message says so", "DEBUGINFOD_URLS names no servers" in result.stderr,
           result)
    (case.commands / "debuginfod-find").unlink()
    result = run(uprobectl, case, "resolve", "--debuginfod", case.program, "hidden", "other", "shop.c:3")
    expect(tap, "without the program there is one message",
           result.stderr.count("debuginfod-find is not installed") == 1 and result.returncode == 1, result)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def check_server(tap, uprobectl, case):
    name = "a real server has the debug file"
    if not shutil.which("debuginfod") or not shutil.which("debuginfod-find"):
        tap.skip(name, "no debuginfod")
        return
    port = free_port()
    cache = case.folder / "cache"
    more = {"PATH": os.environ["PATH"], "DEBUGINFOD_URLS": f"http://127.0.0.1:{port}",
            "DEBUGINFOD_CACHE_PATH": str(cache), "HOME": str(case.folder)}
    with open(case.folder / "server.log", "wb") as log:
        server = subprocess.Popen(["debuginfod", "-p", str(port), "-d", ":memory:", "-F", case.debug.parent],
                                  stdout=log, stderr=log, env=os.environ | {"DEBUGINFOD_URLS": ""})
    try:
        for _ in range(60):  # it scans the folder after its start
            shutil.rmtree(cache, ignore_errors=True)  # it remembers what it did not find
            result = run(uprobectl, case, "resolve", "--json", "--debuginfod", case.program, "hidden", **more)
            if addresses(result):
                break
            time.sleep(0.5)
    finally:
        server.terminate()
        server.wait()
    expect(tap, name, addresses(result) == [case.hidden], result)


def main():
    uprobectl = Path(sys.argv[1]).resolve()
    tap = Tap()
    with tempfile.TemporaryDirectory() as name:
        case = Case(Path(name).resolve())
        check_answers(tap, uprobectl, case)
        check_wrong_answers(tap, uprobectl, case)
        check_server(tap, uprobectl, case)
    tap.done()


if __name__ == "__main__":
    main()
