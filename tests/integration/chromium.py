# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium that a test drives through the DevTools protocol, over the two pipes of
--remote-debugging-pipe: JSON messages that end in a NUL, read by the browser from descriptor 3 and
written to descriptor 4 (content/browser/devtools/devtools_pipe_handler.cc). No port, no network."""

import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time

# No activities besides showing a page; the browser may run as root, and in a container.
QUIET = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-default-apps",
         "--disable-extensions", "--disable-sync", "--metrics-recording-only", "--mute-audio",
         "--no-default-browser-check", "--proxy-server=127.0.0.1:9", "--force-device-scale-factor=1"]


def program():
    return shutil.which("chromium")


class Chromium:
    """With a page of the given size in pixels. Each call ends within `seconds` or raises."""

    def __init__(self, width=1300, height=900, seconds=60):
        self.seconds = seconds
        self.problems = []  # exceptions and errors of the page's console
        self.number = 0
        self.unread = b""
        self.profile = tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)
        here_out, there_in, here_in, there_out = self._pipes()
        self.log = open(os.path.join(self.profile.name, "log"), "w+b")
        self.process = subprocess.Popen(
            [program(), *QUIET, "--remote-debugging-pipe", f"--user-data-dir={self.profile.name}/profile",
             f"--window-size={width},{height}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, pass_fds=(3, 4),
            start_new_session=True, preexec_fn=lambda: (os.dup2(there_in, 3), os.dup2(there_out, 4)),
            env={**os.environ, "HOME": self.profile.name})
        os.close(there_in)
        os.close(there_out)
        self.to, self.back = here_out, here_in
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(domain + ".enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=False)

    @staticmethod
    def _pipes():
        """Descriptors of 10 and more, so that none is in the way of 3 and 4."""
        ends = [end for _ in range(2) for end in reversed(os.pipe())]  # write, read, write, read
        high = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends]
        for end in ends:
            os.close(end)
        to_write, to_read, back_write, back_read = high
        return to_write, to_read, back_read, back_write

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.to)
        os.close(self.back)
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(self.process.pid, signal.SIGKILL)  # a session of its own: what it has started, too
        except ProcessLookupError:
            pass
        self.process.wait()
        self.log.close()
        self.profile.cleanup()

    def _failure(self, what):
        self.log.seek(0)
        log = self.log.read().decode(errors="replace")[-2000:]
        return RuntimeError(f"{what}; status {self.process.poll()}, log of Chromium:\n{log}")

    def _message(self, deadline, waited_for):
        while b"\0" not in self.unread:
            ready, _, _ = select.select([self.back], [], [], max(0, deadline - time.monotonic()))
            if not ready:
                raise self._failure(f"no answer to {waited_for} in {self.seconds} s")
            piece = os.read(self.back, 1 << 20)
            if not piece:
                raise self._failure(f"Chromium has ended during {waited_for}")
            self.unread += piece
        text, self.unread = self.unread.split(b"\0", 1)
        message = json.loads(text)
        self._note(message.get("method"), message.get("params"))
        return message

    def _note(self, method, params):
        if method == "Runtime.exceptionThrown":
            thrown = params["exceptionDetails"]
            self.problems.append(thrown.get("exception", {}).get("description", thrown["text"]))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.problems.append(f"console.{params['type']}: {params['args']}")
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.problems.append(f"{params['entry']['level']}: {params['entry']['text']}")

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + self.seconds
        while True:
            answer = self._message(deadline, method)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise self._failure(f"{method}: {answer['error']}")
                return answer["result"]

    def open(self, url):
        """Waits until the page, or the fragment of it, is there and its scripts have run."""
        self.call("Page.navigate", url=url)
        self.until(f"document.readyState === 'complete' && location.href === {json.dumps(url)}")

    def until(self, expression):
        """Waits for what happens a little later, as typed letters do."""
        deadline = time.monotonic() + self.seconds
        while not self.value(expression):
            if time.monotonic() > deadline:
                raise self._failure(f"this does not become true: {expression}")
            time.sleep(0.02)

    def value(self, expression, wait=False):
        """What a JavaScript expression says, as JSON can have it; with `wait` what a promise comes to."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=wait)
        if "exceptionDetails" in answer:
            raise self._failure(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def click(self, x, y):
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def move(self, x, y):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def press(self, key, code=0, control=False):
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code,
                      modifiers=2 if control else 0)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def screenshot(self):
        """PNG of what is in the window, base64."""
        return self.call("Page.captureScreenshot", format="png")["data"]
