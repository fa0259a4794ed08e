#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A file that is cut short while it is being read ends in an error message, not in a crash.
Usage: shrinking_file.py UPROBECTL; prints TAP.

Nothing here depends on speed: the listing is far longer than what the pipe holds, so uprobectl waits
in the middle of it until somebody reads; the file is truncated while it waits.
"""

import fcntl
import os
import select
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap

F_SETPIPE_SZ = getattr(fcntl, "F_SETPIPE_SZ", 1031)


def list_while_shrinking(uprobectl, file, option):
    """Exit status and stderr of a listing of the file, which is emptied after the first bytes."""
    read_end, write_end = os.pipe()
    fcntl.fcntl(write_end, F_SETPIPE_SZ, 4096)
    with subprocess.Popen([uprobectl, "list-symbols", *option, file], stdin=subprocess.DEVNULL,
                          stdout=write_end, stderr=subprocess.PIPE) as process:
        os.close(write_end)
        select.select([read_end], [], [], 60)
        os.truncate(file, 0)
        while os.read(read_end, 65536):
            pass
        os.close(read_end)
        errors = process.stderr.read().decode()
    return process.returncode, errors


def main():
    uprobectl = Path(sys.argv[1]).resolve()
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        for option in ([], ["--json"]):
            file = Path(folder, "shrinking")
            shutil.copy(uprobectl, file)  # thousands of symbols
            status, errors = list_while_shrinking(uprobectl, file, option)
            expected = "uprobectl: error: a file changed size while it was being read\n"
            problems = [] if (status, errors) == (1, expected) else [f"exit {status}: {errors[:2000]}"]
            tap.check(" ".join(["list-symbols", *option, "of a file that shrinks"]), problems)
    tap.done()


main()
