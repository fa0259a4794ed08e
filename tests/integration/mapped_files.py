#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How `-p PID` resolves a TARGET, for a program that has mapped a library straight from an archive.
Usage: mapped_files.py UPROBECTL APK_HOST FIXTURES; prints TAP.

Where the library's function lies in the archive is what the program itself says, which has its own
loader (fixtures/apk).
"""

import json
import platform
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap


def run(uprobectl, *words):
    """Exit status, stdout, stderr."""
    done = subprocess.run([uprobectl, *map(str, words)], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


def differences(found, expected):
    return [] if found == expected else [f"expected {expected!r}", f"found    {found!r}"]


def check_all(tap, uprobectl, pid, archive, entry, offset):
    """The library by TARGET `*` and by its name."""
    line = f"{offset}\t{archive}!/{entry}\tgreet_add\n"
    tap.check("* asks every file that the process maps, entries of archives among them",
              differences(run(uprobectl, "resolve", "-p", pid, "*", "greet_add"), (0, line, "")))
    tap.check("a mapped library is found by its name",
              differences(run(uprobectl, "resolve", "-p", pid, "greet", "greet_add"), (0, line, "")))
    status, out, _ = run(uprobectl, "resolve", "-j", "-p", pid, "*", "greet_add", "main")
    records = [(r["target"], r["file"], r["entry"], r["symbol"]) for r in map(json.loads, out.splitlines())]
    host = str(Path(sys.argv[2]).resolve())
    tap.check("in JSON file and entry tell where each FUNCTION is",
              differences((status, records), (0, [("*", str(archive), entry, "greet_add"),
                                                  ("*", host, None, "main")])))
    _, out, _ = run(uprobectl, "list-symbols", "-p", pid, "*", "greet_add")
    tap.check("list-symbols names the file at the end of the line",
              differences([row.split("\t")[-2:] for row in out.splitlines()],
                          [["greet_add", f"{archive}!/{entry}"]]))
    status, out, errors = run(uprobectl, "resolve", "-p", pid, "*", "no_such_function")
    tap.check("a FUNCTION that none of the files has fails once",
              differences((status, out, errors.splitlines()[0]),
                          (1, "", "uprobectl: error: *: 'no_such_function' is not in any of its 2 files")))
    tap.check("attach takes * with processes",
              differences(run(uprobectl, "attach", "--dry-run", "-p", pid, "*", "greet_add")[:2], (0, line)))


def check_machine(tap, uprobectl, pid, fixtures):
    """Files that the process can never run."""
    foreign = fixtures / "arm64.so"
    message = (f"{foreign}: the file is arm64, but process {pid} is x86-64: "
               "a probe in it can never fire there")
    tap.check("a file of another machine is resolved with a warning",
              differences(run(uprobectl, "resolve", "-p", pid, foreign, "work"),
                          (0, f"0x1100\t{foreign}\twork\n", f"uprobectl: warning: {message}\n")))
    status, out, errors = run(uprobectl, "attach", "-j", "--dry-run", "-p", pid, foreign, "work")
    record = json.loads(out or "{}")
    tap.check("attach refuses it",
              differences((status, record.get("code"), errors.splitlines()[0]),
                          (1, "wrong_machine", f"uprobectl: error: {message}")))
    pattern = f"{fixtures}/app-base.apk!/lib/*/libnames.so"
    status, out, errors = run(uprobectl, "attach", "--dry-run", "-p", pid, pattern, "work")
    tap.check("a pattern leaves out the libraries of other machines and says so",
              differences((status, out, errors.startswith("uprobectl: warning: skipped: ")),
                          (0, f"0x6200\t{fixtures}/app-base.apk!/lib/x86_64/libnames.so\twork\n", True)))


def main():
    uprobectl, host, fixtures = (Path(word).resolve() for word in sys.argv[1:4])
    tap = Tap()
    abi = {"aarch64": "arm64-v8a"}.get(platform.machine(), platform.machine())
    archive, entry = fixtures / "greet.apk", f"lib/{abi}/libgreet.so"
    with subprocess.Popen([host, f"{archive}!/{entry}", "greet_add", "1", "--wait"], text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        offset = None
        for line in process.stdout:
            if found := re.match(r"function greet_add .* archive offset (0x[0-9a-f]+)$", line):
                offset = found[1]
            if line.startswith("ready "):
                break
        try:
            check_all(tap, uprobectl, process.pid, archive, entry, offset)
            if platform.machine() == "x86_64":
                check_machine(tap, uprobectl, process.pid, fixtures)
            else:
                tap.skip("files of another machine", "not x86-64")
        finally:
            process.kill()
    tap.done()


main()
