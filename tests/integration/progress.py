#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""progress.py UPROBECTL
What a command that takes long shows on a terminal meanwhile. A stand-in for debuginfod-find takes its time. Prints
TAP."""

import os
import pty
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap

STAND_IN = "#!/bin/sh\nsleep 4.2\necho 'not found' >&2\nexit 1\n"


def run(words, environment, on_terminal):
    """Returns the status, stdout and stderr; with a terminal, what was written to it is both."""
    if not on_terminal:
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout, done.stderr
    ours, theirs = pty.openpty()
    with subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        text = b""
        try:
            while piece := os.read(ours, 1 << 16):
                text += piece
        except OSError:  # the terminal has no writer any more
            pass
    os.close(ours)
    return process.returncode, text.decode(), text.decode()


def screen(text):
    """The lines that stand on the terminal in the end."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    lines = [re.sub(r"^.*\r(?!$)", "", line.rstrip("\r")).replace("\x1b[K", "") for line in text.split("\n")]
    return [line for line in lines if line]


def main():
    tap = Tap()
    uprobectl = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "program")
        subprocess.run(["gcc", "-x", "c", "-", "-Wl,--build-id", "-s", "-o", program], input=b"int main(void) { return 0; }",
                       check=True)
        finder = Path(folder, "debuginfod-find")
        finder.write_text(STAND_IN)
        finder.chmod(0o755)
        environment = dict(os.environ, PATH=f"{folder}:{os.environ['PATH']}", DEBUGINFOD_URLS="none", TERM="xterm")
        words = [uprobectl, "list-lines", "--debuginfod", program, "main"]
        status, stdout, stderr = run(words, environment, False)
        tap.check("nothing is shown without a terminal", [stderr] if "\r" in stderr or "downloading" in stderr else [])
        same, text, _ = run(words, environment, True)
        shown = re.findall(r"\r(downloading the debug information of build id [0-9a-f]+, \d s)\x1b\[K", text)
        times = [int(each.split()[-2]) for each in shown]
        tap.check("what takes longer than a second is said, with its time",
                  [] if len(set(times)) >= 2 and times == sorted(times) and set(times) <= {1, 2, 3, 4, 5} else [repr(text)])
        tap.check("the line is written when it changes", [] if len(shown) == len(set(shown)) else [repr(text)])
        tap.check("it is gone in the end", [] if screen(text) == screen(stderr) + screen(stdout) or
                  screen(text) == screen(stdout) + screen(stderr) else [repr(text), repr(stderr), repr(stdout)])
        tap.check("the status is the same", [] if same == status else [f"{same} instead of {status}"])
        _, text, _ = run([*words, "--quiet"], environment, True)
        tap.check("--quiet shows nothing", [repr(text)] if "downloading" in text else [])
        finder.write_text(STAND_IN.replace("4.2", "0.1"))
        _, text, _ = run(words, environment, True)
        tap.check("what is fast shows nothing", [repr(text)] if "\r\x1b[K" in text or "downloading" in text else [])
    tap.done()


main()
