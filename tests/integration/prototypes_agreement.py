#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The prototypes of libc in share/prototypes: the functions against the dynamic symbols of this
machine's libc.so.6 (GNU nm), the names of numbers against the headers of the C compiler.
Usage: prototypes_agreement.py TABLE; prints TAP."""

import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap

HEADERS = """dlfcn.h fcntl.h netdb.h netinet/in.h netinet/tcp.h netinet/udp.h pthread.h signal.h stdio.h
sys/epoll.h sys/eventfd.h sys/file.h sys/inotify.h sys/mman.h sys/mount.h sys/random.h sys/resource.h sys/socket.h
sys/stat.h sys/timerfd.h sys/wait.h time.h unistd.h""".split()
# Enumerators; O_LARGEFILE is 0 for 64-bit programs, but the kernel reports it.
NOT_MACROS = {"P_ALL", "P_PID", "P_PGID", "P_PIDFD", "O_LARGEFILE"}


def statements(text):
    """The lines of a table without comments, continued lines joined."""
    text = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)
    return [line for line in re.sub(r"\n[ \t]+", " ", text).splitlines() if line]


def functions(lines):
    for line in lines:
        if not line.startswith(("type ", "library ")):
            yield from line[:line.index("(")].split()


def constants(lines):
    """(name, number) of the types for this architecture."""
    overridden = {name for line in lines
                  for machine, name in re.findall(r"^type \[(\w+)\] (\w+)", line)
                  if machine == platform.machine()}
    for line in lines:
        found = re.match(r"type (?:\[(\w+)\] )?(\w+)", line)
        if found and found[1] not in (None, platform.machine()):
            continue
        if found and not found[1] and found[2] in overridden:
            continue
        for names in re.findall(r"\{\|?([^}]*)\}", line):
            for each in names.rpartition(":")[2].split(","):
                if "=" in each:
                    name, number = each.strip().split("=")
                    yield name, number.split("/")[0]


# The level of socket(7), ip(7), ipv6(7), tcp(7) and udp(7).
LEVELS = {"SO": "SOL_SOCKET", "IP": "IPPROTO_IP", "IPV6": "IPPROTO_IPV6", "TCP": "IPPROTO_TCP", "UDP": "IPPROTO_UDP"}


def levels(lines):
    """(name of a level, number) of the options of sockets."""
    for line in lines:
        if line.startswith("type socket_option "):
            yield from ((LEVELS[option], level) for option, level in re.findall(r"([A-Z0-9]+)_\w+=\d+/(\d+)", line))


def symbols_of_libc():
    libc = next((Path(row.split()[-1]) for row in Path("/proc/self/maps").read_text().splitlines()
                 if row.endswith("/libc.so.6")), None)
    if libc is None:
        return None
    names = subprocess.run(["nm", "-D", "--defined-only", libc], check=True, capture_output=True,
                           text=True).stdout
    return {row.split()[-1].split("@")[0] for row in names.splitlines()}


def wrong_constants(pairs):
    """What the compiler says of names with another number, or of none."""
    source = ["#define _GNU_SOURCE", *(f"#include <{each}>" for each in HEADERS), "int main(void) {"]
    for name, number in sorted(set(pairs)):
        if name in NOT_MACROS:
            continue
        source += [f"#ifndef {name}", f'printf("{name} is not defined\\n");', "#else",
                   f'if ((long)({name}) != (long)({number})) '
                   f'printf("{name} is %#lx, not {number}\\n", (long)({name}));', "#endif"]
    source.append("return 0; }\n")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "constants.c"
        path.write_text("\n".join(source))
        subprocess.run(["gcc", "-w", "-o", path.with_suffix(""), path], check=True)
        return subprocess.run([path.with_suffix("")], check=True, capture_output=True,
                              text=True).stdout.splitlines()


def main():
    tap = Tap()
    lines = statements(Path(sys.argv[1]).read_text(encoding="utf-8"))
    defined = symbols_of_libc()
    if defined is None:
        tap.skip("functions of libc.so.6", "this Python does not use glibc")
    else:
        tap.check("functions of libc.so.6",
                  [f"{name} is not in libc.so.6" for name in functions(lines) if name not in defined])
    tap.check("names of numbers are those of the headers", wrong_constants(constants(lines)))
    tap.check("options of sockets have the level of their names", wrong_constants(levels(lines)))
    tap.done()


main()
