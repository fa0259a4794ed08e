# SPDX-License-Identifier: Apache-2.0
"""A terminal for tests: a shell in tmux, with a server of its own."""

import os
import shlex
import subprocess
import time

WAIT = 15 * float(os.environ.get("UPROBECTL_PATIENCE", "1"))  # seconds


class Tmux:
    """shell: what runs in the terminal. The terminal stays when it has ended."""

    def __init__(self, folder, columns, rows, shell=("bash", "--norc"), **environment):
        self.server = str(folder / f"tmux-{os.getpid()}-{time.monotonic_ns()}")
        words = ["env", "LANG=C.UTF-8", "PS1=ready> ", "HISTFILE=/dev/null", *(f"{name}={value}" for name, value in environment.items()), *shell]
        subprocess.run(["tmux", "-u", "-f", "/dev/null", "-S", self.server, "new-session", "-d", "-x", str(columns), "-y", str(rows),
                        "-c", str(folder), shlex.join(map(str, words)), ";", "set", "-g", "remain-on-exit", "on"], check=True)

        # What is typed before the first prompt is echoed before it, too.
        if tuple(shell) == ("bash", "--norc"):
            self.wait_for("ready>")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def call(self, *words):
        done = subprocess.run(["tmux", "-S", self.server, *words], capture_output=True, text=True, check=False)
        return done.stdout

    def close(self):
        """The terminal is gone for what runs in it."""
        self.call("kill-server")

    def type(self, *keys):
        self.call("send-keys", *keys)

    def line(self, *words):
        """Types a command."""
        self.call("send-keys", "-l", shlex.join(map(str, words)))
        self.type("Enter")

    def resize(self, columns, rows):
        self.call("resize-window", "-x", str(columns), "-y", str(rows))

    def screen(self):
        return [line.rstrip() for line in self.call("capture-pane", "-p").split("\n")[:-1]]

    def wait(self, holds, seconds=WAIT):
        """Returns the screen when holds(screen) is true, or the last one."""
        end = time.monotonic() + seconds
        while True:
            screen = self.screen()
            if holds(screen) or time.monotonic() > end:
                return screen
            time.sleep(0.05)

    def wait_for(self, *texts, seconds=WAIT):
        """Returns the screen when it has the texts, and which of them it never had."""
        screen = self.wait(lambda lines: all(text in "\n".join(lines) for text in texts), seconds)
        return screen, [text for text in texts if text not in "\n".join(screen)]
