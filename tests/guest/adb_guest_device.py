# SPDX-License-Identifier: Apache-2.0
"""A device for tests of --adb that is a guest: a Debian kernel in QEMU with Android's layout (adb_device.sh)."""

import shutil
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
TESTS = HERE.parent
sys.path[:0] = [str(TESTS.parent / "tools"), str(TESTS / "integration"), str(TESTS)]

from adb_device_world import free_port  # noqa: E402  (the path above comes first)
from guest_runner import GuestError  # noqa: E402
from guest_runner.architecture import ARCHITECTURES  # noqa: E402
from guest_runner.boot import GuestRun, patience, run_guest  # noqa: E402
from guest_runner.packages import NETWORK_MODULE, fetch_busybox, fetch_kernel, fetch_packages  # noqa: E402

PACKAGES = ["python3.11-minimal", "libpython3.11-minimal", "libc6", "libexpat1", "zlib1g", "mksh"]
# Of the packages: what Python needs, and a static shell.
LIBRARIES = ("libc.so.6", "libm.so.6", "libexpat.so.1", "libz.so.1")
SHELL = "usr/lib/klibc/bin/mksh"
LOADERS = {"amd64": ("lib/x86_64-linux-gnu/ld-linux-x86-64.so.2", "/lib64/ld-linux-x86-64.so.2"),
           "arm64": ("lib/aarch64-linux-gnu/ld-linux-aarch64.so.1", "/lib/ld-linux-aarch64.so.1")}
BOOT_SECONDS = 120 * patience()


class Lines:
    """What the guest prints, as lines that can be waited for."""

    def __init__(self):
        self.text, self.changed = b"", threading.Condition()

    def write(self, data):
        with self.changed:
            self.text += data
            self.changed.notify_all()

    def flush(self):
        pass

    def wait_for(self, condition, seconds):
        with self.changed:
            return self.changed.wait_for(lambda: condition(self.text), seconds)


class GuestDevice:
    """GuestError from the constructor: there is no such kernel."""

    def __init__(self, arch, series, cache, fixtures):
        machine = ARCHITECTURES[arch]
        if shutil.which(machine.qemu) is None:
            raise GuestError(f"no program '{machine.qemu}'")
        self.name, self.arch = f"{arch} {series}", arch
        kernel = fetch_kernel(arch, series, cache)
        tree = fetch_packages(arch, PACKAGES, cache)
        port = free_port()
        self.serial = f"127.0.0.1:{port}"
        self.lines, self.boots, self.error = Lines(), 0, None
        self.guest = GuestRun(
            arch=arch, kernel=kernel, busybox=fetch_busybox(arch, cache), timeout=1200,
            command=["sh", "/guest/adb_device.sh"], forwarded_port=(port, 5555), may_reboot=True,
            files=[(TESTS / "adb_device.py", "/guest/adb_device.py"), (HERE / "adb_device.sh", "/guest/adb_device.sh"),
                   (kernel.parent / NETWORK_MODULE, f"/guest/{NETWORK_MODULE}"), (tree / SHELL, "/system/bin/sh"),
                   *((fixtures / name, f"/fixtures/{name}") for name in ("greet.apk", "apk-host", "bpf-census")),
                   *self.python(tree, arch)])
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    @staticmethod
    def python(tree, arch):
        loader, path = LOADERS[arch]
        libraries = (tree / loader).parent
        return [(tree / "usr/bin/python3.11", "/usr/bin/python3.11"), (tree / loader, path),
                *((library, f"/{folder}/{name}") for name in LIBRARIES for folder in ("lib", "usr/lib")
                  if (library := tree / folder / libraries.name / name).exists()),
                *((module, f"/{module.relative_to(tree)}") for module in (tree / "usr/lib/python3.11").rglob("*.py"))]

    def run(self):
        try:
            run_guest(self.guest, self.lines)
        except GuestError as error:
            self.error = error
        with self.lines.changed:
            self.lines.changed.notify_all()

    def wait_for_boot(self):
        """Once more: the guest has booted, and the daemon listens."""
        self.boots += 1
        started = time.monotonic()
        if not self.lines.wait_for(lambda text: text.count(b"listening on") >= self.boots, BOOT_SECONDS):
            raise GuestError(f"{self.name}: no daemon after {BOOT_SECONDS:g} s: {self.error or self.lines.text}")
        return time.monotonic() - started

    def end(self):
        """Waits for the end of a guest whose daemon has ended. What was wrong with it."""
        self.thread.join(60)
        if self.thread.is_alive():
            return [f"{self.name} does not end"]
        return [self.error] if self.error else []

    def close(self):
        self.guest.stop.set()
        self.thread.join()
