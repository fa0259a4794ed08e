#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the attach suite on this machine itself, on programs it starts itself; its TAP becomes ours.

Usage: run_native_suite.py --bin build/src/cli/uprobectl --fixtures build/fixtures

First a child tries one probe on a program of ours. A kernel whose uprobes hang never lets go of who
asks it, so that child is left alone after 10 seconds, and the suite is skipped.
"""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import BinaryIO, NoReturn

HERE = Path(__file__).resolve().parent
TRIAL_SECONDS = 10
SUITE_SECONDS = 1800 * float(os.environ.get("UPROBECTL_PATIENCE", "1"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=Path, required=True)
    parser.add_argument("--fixtures", type=Path, required=True)
    options = parser.parse_args()
    if os.geteuid() != 0:
        return skip("not root")
    reason = why_unusable(options)
    if reason:
        return skip(f"machine uprobes unusable: {reason}")
    run_suite(options)


def skip(reason: str) -> int:
    print(f"1..0 # SKIP {reason}")
    return 0


def why_unusable(options: argparse.Namespace) -> str | None:
    """What keeps a probe from working here, as far as that is not uprobectl's own fault."""
    target = subprocess.Popen([options.fixtures / "workload", "--calls", "1", "--wait", "--hold"],
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)
    try:
        trial = subprocess.Popen(
            [options.bin, "attach", "-j", "-p", str(target.pid), "-d", "200ms",
             options.fixtures / "workload", "work_six"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            start_new_session=True)
        if not ends_within(trial, TRIAL_SECONDS):
            # Neither killed nor waited for: both could hang as it does.
            return f"a trial probe did not answer in {TRIAL_SECONDS} s"
        said = trial.stdout.read().decode(errors="replace")
        for code in ("not_permitted", "unsupported"):
            if trial.returncode != 0 and f'"code":"{code}"' in said:
                return said.split('"message":"', 1)[-1].split('"', 1)[0]
        return None  # what else goes wrong is for the suite to tell
    finally:
        target.send_signal(signal.SIGKILL)


def ends_within(child: subprocess.Popen, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while child.poll() is None:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def run_suite(options: argparse.Namespace) -> NoReturn:
    # The suite looks for leftovers in tracefs, which a machine need not have mounted: it gets its
    # own mounts.
    script = 'mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null; exec sh "$0"'
    suite = subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", script, HERE / "attach_suite.sh"],
        env={**os.environ, "UPROBECTL": str(options.bin.resolve()),
             "FIXTURES": str(options.fixtures.resolve()),
             # What it prints as JSON is validated, which guests have no program for.
             "RECORD_SCHEMA": str(HERE.parent / "record_schema.py"),
             # How long goroutines are to stay unharmed.
             "GO_SECONDS": "10"},
        # Pipes of its own: a reader of ours waits for all processes that hold them, and a process that
        # hangs in the kernel never closes them.
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    readers = [threading.Thread(target=pass_on, args=streams, daemon=True)
               for streams in ((suite.stdout, sys.stdout.buffer), (suite.stderr, sys.stderr.buffer))]
    for reader in readers:
        reader.start()
    if not ends_within(suite, SUITE_SECONDS):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(suite.pid, signal.SIGKILL)
        print(f"Bail out! the suite has not ended after {SUITE_SECONDS:g} s", flush=True)
        os._exit(0)  # without waiting for threads
    for reader in readers:
        reader.join(timeout=TRIAL_SECONDS)
    sys.stdout.flush()
    os._exit(0)


def pass_on(source: BinaryIO, sink: BinaryIO) -> None:
    for line in source:
        sink.write(line)
        sink.flush()


if __name__ == "__main__":
    sys.exit(main())
