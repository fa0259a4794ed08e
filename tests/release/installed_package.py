#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Debian package in a Debian 12 that has nothing else: it can be installed, run, installed again and
purged without a trace. Usage: installed_package.py SOURCE BUILD [EMULATOR…]; prints TAP.

A Debian of another architecture is unpacked only, because its programs run with EMULATOR alone: this
machine's dpkg installs into it."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "tools"))
from foreign_apt import Unavailable, run, source_lines
from tap import Tap

RELEASE = "bookworm"
# What dpkg and ldconfig keep for themselves.
BOOKKEEPING = ("var/lib/dpkg/", "var/log/", "var/cache/", "tmp/")


def make_root(root, architecture, emulated):
    sources = root.with_name("sources.list")
    sources.write_text(source_lines(RELEASE))
    # The archive's first state, without updates: what is asked here does not depend on them.
    command = ["mmdebstrap", "--quiet", "--format=directory", f"--arch={architecture}"]
    if emulated:
        command += ["--variant=extract", "--include=libc6", "--skip=check/qemu"]
    else:
        command += ["--variant=minbase"]
    run([*command, RELEASE, str(root), str(sources)])
    if emulated:
        # Unpacked, not installed: dpkg's own database of it is begun here.
        run(["dpkg", f"--root={root}", "--add-architecture", architecture])


def contents(root):
    """Path -> what is there, of all that packages own."""
    found = {}
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if not Path(folder, name).is_mount()]
        for path in [Path(folder, name) for name in folders + files]:
            name = str(path.relative_to(root))
            if not name.startswith(BOOKKEEPING):
                status = path.lstat()
                found[name] = (status.st_mode, status.st_size if path.is_file() else 0)
    return found


def differences(before, after):
    return [f"{name}: {before.get(name)} before, {after.get(name)} after"
            for name in sorted(before.keys() | after.keys()) if before.get(name) != after.get(name)]


class Debian:
    def __init__(self, root, emulator):
        self.root = root
        self.emulator = []
        if emulator:
            program = Path(shutil.which(emulator[0]))
            shutil.copy(program, root / program.name)
            self.emulator = ["/" + program.name]

    def dpkg(self, *words):
        command = ["dpkg", f"--root={self.root}"] if self.emulator else ["chroot", self.root, "dpkg"]
        return self.call(*command, *words)

    def uprobectl(self, *words):
        return self.call("chroot", self.root, *self.emulator, "/usr/bin/uprobectl", *words)

    def call(self, *command):
        result = subprocess.run(command, text=True, capture_output=True, stdin=subprocess.DEVNULL,
                                env={**os.environ, "LC_ALL": "C", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})
        # The folders of a Debian that is unpacked only belong to no package that dpkg knows.
        said = [line for line in result.stderr.splitlines(keepends=True)
                if not (self.emulator and re.search(r"while removing .* directory '.*' not empty", line))]
        return result.returncode, result.stdout, "".join(said)


def successful(said, output=None):
    """What is wrong with a command that ought to succeed in silence, or with this output."""
    status, stdout, stderr = said
    wrong = status or stderr or (output is not None and stdout != output)
    return [f"exit status {status}", stdout, stderr] if wrong else []


def malloc_in(library):
    """The offset of malloc by GNU readelf. In Debian's libc the code's addresses are its offsets."""
    for line in run(["readelf", "--wide", "--dyn-syms", str(library)]).splitlines():
        words = line.split()
        if len(words) > 7 and words[3] == "FUNC" and words[7].split("@")[0] == "malloc":
            return f"0x{int(words[1], 16):x}\n"
    raise Unavailable(f"{library} has no malloc")


def check_life(tap, debian, package, version):
    before = contents(debian.root)
    inside = package if debian.emulator else "/" + package.name
    tap.check("it installs without a word of warning", successful(debian.dpkg("--install", inside)))
    tap.check("dpkg finds all its files as they were packed", successful(debian.dpkg("--verify", "uprobectl"), ""))
    status, stdout, stderr = debian.uprobectl("--version")
    tap.check("the program runs there",
              [] if status == 0 and stdout.startswith(f"uprobectl {version}\n") else [status, stdout, stderr])
    library = next((debian.root / "usr/lib").glob("*-linux-gnu/libc.so.6"), None) or \
        next((debian.root / "lib").glob("*-linux-gnu/libc.so.6"))
    name = "/" + str(library.relative_to(debian.root))
    tap.check("it finds a function of that Debian's libc",
              successful(debian.uprobectl("resolve", "--offset-only", name, "malloc"), malloc_in(library)))
    tap.check("it can be installed again", successful(debian.dpkg("--install", inside)))
    tap.check("it can be purged", successful(debian.dpkg("--purge", "uprobectl")))
    tap.check("purging removes all files", differences(before, contents(debian.root)))
    tap.check("dpkg does not know it any more", [] if debian.dpkg("--status", "uprobectl")[0] == 1 else ["it does"])


def main():
    source, build, *emulator = sys.argv[1:]
    tap = Tap()
    name = "the Debian package in a Debian 12"
    if os.geteuid() != 0:
        tap.skip(name, "only root can make a root folder")
    elif not shutil.which("mmdebstrap"):
        tap.skip(name, "mmdebstrap is not installed")
    else:
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            subprocess.run([Path(source, "tools/package"), "--level", "0", build, folder], check=True)
            package = next(folder.glob("*.deb"))
            version = package.name.split("_")[1].split("-")[0]
            root = folder / "debian"
            try:
                make_root(root, package.stem.split("_")[2], emulator)
            except Unavailable as error:
                tap.skip(name, f"cannot be had: {error}")
                tap.done()
                return
            shutil.copy(package, root)
            check_life(tap, Debian(root, emulator), package, version)
    tap.done()


main()
