#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Paths of a process in another root folder lead where they do for the process, and never to files
of this machine; names that are links, and programs that scripts hide.
Usage: process_roots.py UPROBECTL FIXTURES; prints TAP.

Expected offsets are computed from what readelf prints.
"""

import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap

CLONE_NEWNS = 0x20000
CLONE_NEWUSER = 0x10000000
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
LIBC = ctypes.CDLL(None, use_errno=True)


def offset_of(file, name):
    """Where readelf says that a dynamic function begins in its file."""
    symbols = subprocess.run(["readelf", "-W", "--dyn-syms", file], capture_output=True, text=True, check=True)
    address = next(int(line.split()[1], 16) for line in symbols.stdout.splitlines()
                   if len(line.split()) == 8 and line.split()[7] == name)
    headers = subprocess.run(["readelf", "-lW", file], capture_output=True, text=True, check=True)
    for line in headers.stdout.splitlines():
        words = line.split()
        if words[:1] == ["LOAD"]:
            offset, start, _, size = (int(word, 16) for word in words[1:5])
            if start <= address < start + size:
                return f"{address - start + offset:#x}"
    raise ValueError(f"{file}: {name} is in no segment")


class Confined:
    """A process whose root folder is another one. With own_mounts also its mount namespace, in which
    that folder has a /proc."""

    def __init__(self, root, library, own_mounts=False):
        ready_read, ready_write = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                self._confine(root, library, own_mounts)
                os.write(ready_write, b"ready")
                signal.pause()
            finally:
                os._exit(1)
        os.close(ready_write)
        self.ready = os.read(ready_read, 5) == b"ready"
        os.close(ready_read)

    @staticmethod
    def _confine(root, library, own_mounts):
        flags = (CLONE_NEWUSER if os.geteuid() != 0 else 0) | (CLONE_NEWNS if own_mounts else 0)
        if flags and LIBC.unshare(flags) != 0:
            os._exit(2)
        if own_mounts:
            Path(root, "proc").mkdir(exist_ok=True)
            LIBC.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None)
            if LIBC.mount(b"/proc", os.fsencode(Path(root, "proc")), None, MS_BIND | MS_REC, None) != 0:
                os._exit(2)
        os.chroot(root)
        os.chdir("/")
        ctypes.CDLL(library)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


class Hidden(Confined):
    """A process for which another folder lies over one of this machine's; it maps libgreet.so there."""

    @staticmethod
    def _confine(root, library, own_mounts):
        flags = CLONE_NEWNS | (CLONE_NEWUSER if os.geteuid() != 0 else 0)
        if LIBC.unshare(flags) != 0 or LIBC.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) != 0:
            os._exit(2)
        if LIBC.mount(os.fsencode(root), os.fsencode(library), None, MS_BIND, None) != 0:
            os._exit(2)
        ctypes.CDLL(os.fspath(library / "libgreet.so"))


class Cases:
    def __init__(self, uprobectl, fixtures, folder):
        self.uprobectl = uprobectl
        self.tap = Tap()
        self.wanted = fixtures / "libgreet.so"
        self.other = fixtures / "kin.so"
        self.host = Path(folder, "host")  # outside of the root folder
        self.root = Path(folder, "root")
        self.lib = self.root / "lib"
        self.host.mkdir()
        self.lib.mkdir(parents=True)
        shutil.copy(self.wanted, self.lib / "libgreet.so")

    def run(self, *arguments, **options):
        result = subprocess.run([self.uprobectl, *map(str, arguments)], capture_output=True, text=True,
                                stdin=subprocess.DEVNULL, timeout=60, check=False, **options)
        return result.returncode, result.stdout, result.stderr

    def check(self, name, got, status, out, errors):
        """errors: a regular expression for all of stderr."""
        problems = []
        if got[0] != status:
            problems.append(f"exit {got[0]}, expected {status}")
        if got[1] != out:
            problems.append(f"stdout {got[1]!r}, expected {out!r}")
        if not re.fullmatch(errors, got[2], re.DOTALL):
            problems.append(f"stderr {got[2]!r}, expected /{errors}/")
        self.tap.check(name, problems)

    def resolve(self, process, target, function="greet_add"):
        return self.run("resolve", "--offset-only", "-p", process.pid, target, function)

    def links(self):
        """The host has a file of other content where the link leads without the root folder."""
        shutil.copy(self.other, self.host / "libx.so")
        inside = self.root / str(self.host).lstrip("/")
        inside.mkdir(parents=True)
        shutil.copy(self.wanted, inside / "libx.so")
        (self.lib / "libx.so").symlink_to(self.host / "libx.so")
        shutil.copy(self.other, self.host / "libhostonly.so")
        (self.lib / "libaway.so").symlink_to(self.host / "libhostonly.so")
        (self.lib / "libup.so").symlink_to("../../../../../../../.." + str(self.host / "libx.so"))
        (self.lib / "libloop.so").symlink_to("libloop2.so")
        (self.lib / "libloop2.so").symlink_to("/lib/libloop.so")
        (self.lib / "libself.so").symlink_to("/proc/self/exe")

    def confined(self, process, where):
        offset = offset_of(self.wanted, "greet_add") + "\n"
        for link in ("libx.so", "libup.so"):
            self.check(f"{where}: {link}, a link that leads elsewhere without the root folder",
                       self.resolve(process, "/lib/" + link), 0, offset, "")
        self.check(f"{where}: a link to what only this machine has",
                   self.resolve(process, "/lib/libaway.so", "exported"), 1, "",
                   "uprobectl: error: /lib/libaway.so: no such file or directory.*")
        self.check(f"{where}: links that go round", self.resolve(process, "/lib/libloop.so"), 1, "",
                   "uprobectl: error: /proc/[0-9]+/root/lib/libloop.so: too many levels of symbolic links\n")
        self.check(f"{where}: what a process maps by a path of another root is where it maps it",
                   self.resolve(process, "libgreet.so"), 0, offset, "")

    def hidden(self, process):
        shutil.copy(self.other, self.host / "libgreet.so")
        path = f"/proc/{process.pid}/root{self.host}/libgreet.so"
        for target in ("libgreet.so", f"{self.host}/libgreet.so"):
            got = self.run("resolve", "-j", "-p", process.pid, target, "greet_add")
            problems = [] if got[0] == 0 and f'"file":"{path}"' in got[1] else [f"expected {path}: {got}"]
            got = self.run("resolve", "--emit", "perf", "-p", process.pid, target, "greet_add")
            problems += [] if got[0] == 0 and f"perf probe -x {path} " in got[1] else [f"expected {path}: {got}"]
            by = "path" if target.startswith("/") else "name"
            self.tap.check(f"a file that the process maps over one of ours, by {by}", problems)

        # 0x5200: archive.test
        shutil.copy(self.wanted.parent / "libraries.apk", self.lib / "x.apk")
        shutil.copy(self.wanted.parent / "app-base.apk", self.host / "x.apk")
        self.check("a library of an APK that the process has over one of ours, as crash reports name it",
                   self.resolve(process, f"{self.host}/x.apk!libnames.so", "work"), 0, "0x5200\n", "")

    def fifo(self, process):
        os.mkfifo(self.lib / "libfifo.so")
        got = self.resolve(process, "/lib/libfifo.so")
        self.check("a FIFO is not waited for", got, 1, "",
                   "uprobectl: error: /proc/[0-9]+/root/lib/libfifo.so: not a regular file\n")

    def names(self, folder):
        bins = Path(folder, "bin")
        shims = Path(folder, "shims")
        bins.mkdir()
        shims.mkdir()
        shutil.copy(self.uprobectl, bins / "store-check")
        (bins / "store-server").symlink_to("store-check")
        (shims / "store-check").write_text("#!/bin/sh\nexec true\n")
        (shims / "store-check").chmod(0o755)
        path = f"{bins}:{os.environ['PATH']}"
        with subprocess.Popen([bins / "store-server", "resolve", "-f", "-"], stdin=subprocess.PIPE,
                              stdout=subprocess.DEVNULL) as process:
            got = self.run("resolve", "-p", process.pid, "store-server", "main",
                           env={**os.environ, "PATH": path})
            self.check("a name that is a link to what the process maps",
                       (got[0], bool(got[1]), got[2]), 0, True, "")
            process.stdin.close()
        got = self.run("resolve", "store-check", "main", env={**os.environ, "PATH": f"{shims}:{path}"})
        self.check("a script that hides the program is named", (got[0], bool(got[1]), got[2]), 0, True,
                   f"uprobectl: warning: store-check: {shims}/store-check comes first in PATH and is not an ELF "
                   f"file, so running 'store-check' may start another program; using {bins}/store-check\n")

    def without_proc(self):
        """As in a small container or early at boot: neither /proc nor anything else is there."""
        shutil.copy(self.uprobectl, self.root / "uprobectl")
        confine = "import os, sys; os.chroot(sys.argv[1]); os.chdir('/'); os.execv(sys.argv[2], sys.argv[2:])"
        for command, has_rows in ((["resolve", "--offset-only"], False), (["list-symbols"], True),
                                  (["usdt", "list"], False)):
            names = ["greet_add"] if command[0] == "resolve" else []
            result = subprocess.run([sys.executable, "-c", confine, self.root, "/uprobectl", *command,
                                     "/lib/libgreet.so", *names], capture_output=True, text=True, check=False)
            problems = [] if result.returncode == 0 else [f"exit {result.returncode}: {result.stderr}"]
            if command[0] == "resolve" and result.stdout != offset_of(self.wanted, "greet_add") + "\n":
                problems.append(f"stdout {result.stdout!r}")
            if has_rows and "greet_add" not in result.stdout:
                problems.append(f"stdout {result.stdout!r}")
            self.tap.check(" ".join(command) + " without /proc", problems)


def main():
    uprobectl, fixtures = (Path(argument).resolve() for argument in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as folder:
        folder = os.path.realpath(folder)
        cases = Cases(uprobectl, fixtures, folder)
        cases.links()
        with Confined(cases.root, "/lib/libgreet.so") as process:
            if process.ready:
                cases.confined(process, "chroot")
                cases.fifo(process)
            else:
                cases.tap.skip("paths of a process in a chroot", "no right to change the root folder")
        with Confined(cases.root, "/lib/libgreet.so", own_mounts=True) as process:
            if process.ready:
                cases.confined(process, "mount namespace")
                cases.check("a link of /proc does not lead out",
                            cases.resolve(process, "/lib/libself.so", "main"), 1, "",
                            "uprobectl: error: /proc/[0-9]+/root/lib/libself.so: a link of /proc in this path "
                            "leads out of the process's root folder\n")
            else:
                cases.tap.skip("paths of a process in a mount namespace", "no right to make one")
        with Hidden(cases.lib, cases.host) as process:
            if process.ready:
                cases.hidden(process)
            else:
                cases.tap.skip("a path that has another file on this machine", "no right to make a mount namespace")
        cases.names(folder)
        if os.geteuid() == 0:
            cases.without_proc()
        else:
            cases.tap.skip("inspection without /proc", "not root")
    cases.tap.done()


main()
