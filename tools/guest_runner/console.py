# SPDX-License-Identifier: Apache-2.0
"""Reads a guest's serial console: which part is the command's output, how it ended, what the
kernel said."""

import re
from typing import BinaryIO

# Only what the kernel prints itself counts (it stamps its lines), not a command quoting it.
_KERNEL_TROUBLE = re.compile(
    rb"\[ *\d+\.\d+\](?:\[[^]]*\])? .*(Kernel panic|BUG: |Oops|Unable to handle kernel"
    rb"|general protection fault|blocked for more than \d+ seconds|detected stall)"
)
_ESCAPE = re.compile(rb"\x1b(?:\[[0-9;?]*[a-zA-Z]|[a-zA-Z])")


class Console:
    """Feed it bytes as they come; they leave through `sink` between the markers only."""

    def __init__(self, token: str, sink: BinaryIO) -> None:
        self._begin = f"guest-begin-{token} ".encode()
        self._end = f"guest-end-{token}\n".encode()
        self._off = f"guest-off-{token}".encode()
        self._sink = sink
        self._partial = b""
        self._in_command = False
        self.lines: list[bytes] = []
        self.boot_seconds: float | None = None  # the guest's own clock, when the command started
        self.exit_status: int | None = None
        self.complaints = 0  # oopses and warnings the kernel logged while the command ran
        self.trouble: bytes | None = None  # the first line of a kernel in trouble
        self.finished = False

    def feed(self, data: bytes) -> None:
        *complete, self._partial = (self._partial + data.replace(b"\r", b"")).split(b"\n")
        for line in complete:
            self._take(line + b"\n")

    def tail(self, count: int) -> list[str]:
        last = self.lines + ([self._partial] if self._partial else [])
        # The firmware clears the screen; the person's own terminal is not its to clear.
        plain = (_ESCAPE.sub(b"", line) for line in last[-count:])
        return [line.decode(errors="replace").rstrip("\n") for line in plain]

    def _take(self, line: bytes) -> None:
        self.lines.append(line)
        if self.trouble is None and _KERNEL_TROUBLE.search(line):
            self.trouble = line.strip()
        if self._in_command:
            # The command's last line may lack its newline; the marker then follows on it.
            self._in_command = not line.endswith(self._end)
            self._sink.write(line if self._in_command else line[: -len(self._end)])
            self._sink.flush()
        elif self._begin in line:  # after what the firmware left on that line
            self._in_command = True
            self.boot_seconds = float(line.partition(self._begin)[2])
        elif line.startswith(b"TEST_EXIT="):
            self.exit_status = int(line[len(b"TEST_EXIT=") :])
        elif line.startswith(b"TEST_COMPLAINTS="):
            self.complaints = int(line[len(b"TEST_COMPLAINTS=") :])
        elif line.startswith(self._off):
            self.finished = True
