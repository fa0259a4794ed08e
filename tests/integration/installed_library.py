#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files of `meson install`: the programs of docs/library.md are built against it as the page says,
and print what readelf and nm say of a fixture; no installed header needs one that is not installed.
Usage: installed_library.py BUILD PAGE FIXTURE COMPILER…; prints TAP."""

import os
import re
import shlex
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap

INSTALLED = ["bin/uprobectl", "include/uprobectl/resolve.hpp", "lib*/uprobectl.pc", "lib*/libuprobectl.a",
             "share/man/man1/uprobectl.1", "share/bash-completion/completions/uprobectl",
             "share/zsh/site-functions/_uprobectl", "share/uprobectl/records.schema.json"]


def run(command, **options):
    result = subprocess.run(command, capture_output=True, text=True, **options)
    if result.returncode:
        raise RuntimeError(f"{shlex.join(map(str, command))} ended with {result.returncode}: "
                           f"{(result.stdout + result.stderr)[-3000:]}")
    return result.stdout


def installed(build, folder):
    """The prefix below the folder that everything was installed into."""
    run(["meson", "install", "--no-rebuild", "-C", build, "--destdir", folder])
    return next(path.parent.parent for path in Path(folder).rglob("bin/uprobectl"))


def missing_files(prefix):
    for name in INSTALLED:
        pattern = name.replace("lib*/", "**/")
        if not list(prefix.glob(pattern)):
            yield f"{name} is missing"


def missing_headers(prefix):
    for header in sorted((prefix / "include").rglob("*.hpp")):
        for name in re.findall(r'^\s*#\s*include\s*"([^"]+)"', header.read_text(), re.M):
            if not (prefix / "include" / name).exists():
                yield f"{header.relative_to(prefix)} includes {name}"


def build_examples(prefix, page, compiler, folder):
    """The page's programs by their names, compiled with the flags that the page tells."""
    flags = re.search(r"\$\((pkg-config .*?)\)", page)[1].split()
    flags[1:1] = [f"--define-variable=prefix={prefix}"]  # installed below DESTDIR
    module = next(prefix.rglob("uprobectl.pc"))
    words = shlex.split(run(flags, env={**os.environ, "PKG_CONFIG_PATH": str(module.parent)}))
    programs = {}
    for source in re.findall(r"^```cpp\n(.*?)^```", page, re.M | re.S):
        name = source.split()[1]
        (folder / f"{name}.cpp").write_text(source)
        run([*compiler, "-std=c++23", f"{name}.cpp", "-o", name, *words], cwd=folder)
        programs[name] = folder / name
    return programs


def file_offset(fixture, address):
    """By the program headers that readelf prints."""
    for line in run(["readelf", "-lW", fixture]).splitlines():
        if words := re.match(r"\s+LOAD\s+" + r"(0x\w+)\s+" * 5, line):
            offset, start, _, size, _ = (int(word, 16) for word in words.groups())
            if start <= address < start + size:
                return address - start + offset
    raise ValueError(f"{address:#x} is in no segment")


def address_of(name, fixture):
    return next(int(line.split()[0], 16) for line in run(["nm", fixture]).splitlines()
                if line.endswith(f" T {name}"))


def static_probes(fixture):
    """Offset and name of each, by readelf -n."""
    notes = run(["readelf", "-nW", fixture])
    found = re.findall(r"Provider: (\S+)\s+Name: (\S+)\s+Location: (0x\w+)", notes)
    return [(file_offset(fixture, int(address, 16)), f"{provider}:{name}")
            for provider, name, address in found]


def points_problems(program, fixture):
    begin = address_of("main", fixture)
    printed = run([program, fixture, "main", f"{begin + 4:#x}"]).splitlines()
    probes = static_probes(fixture)
    expected = [f"{file_offset(fixture, begin):#x}\tmain",
                *(f"{offset:#x}\t{name}" for offset, name in probes),
                f"{file_offset(fixture, begin + 4):#x}\tmain+0x4"]
    if not probes:
        yield "readelf shows no static probe in the fixture"
    if sorted(printed[1:-1]) != sorted(expected[1:-1]) or printed[::len(printed) - 1] != expected[::len(expected) - 1]:
        yield "\n".join(["expected:", *expected, "printed:", *printed])


def save_stack(folder, fixture):
    """A thread that has just entered main, by a call in exit."""
    folder.mkdir()
    (folder / Path(fixture).name).symlink_to(Path(fixture).resolve())
    called_from = address_of("exit", fixture) + 12
    pc, sp, link = {"x86_64": ("rip", "rsp", ""), "aarch64": ("pc", "sp", f"lr: {called_from:x}\n")}[os.uname().machine]
    (folder / "regs.txt").write_text(f"{pc}: {address_of('main', fixture):x}\n{sp}: 7000\n{link}")
    (folder / "stack.data").write_bytes(struct.pack("<QQ", 0x7000, called_from))
    maps = []
    for line in run(["readelf", "-lW", fixture]).splitlines():
        if " LOAD " in line and " R E " in line:
            offset, start, _, size = (int(word, 16) & ~0xfff for word in line.split()[1:5])
            maps.append(f"{start:x}-{start + size + 0x1000:x} r-xp {offset:x} 08:01 1 /{Path(fixture).name}")
    (folder / "maps.txt").write_text("\n".join(maps) + "\n")
    return called_from


def frames_problems(program, fixture, folder):
    called_from = save_stack(folder / "saved", fixture)
    printed = run([program, folder / "saved"]).splitlines()
    back = {"x86_64": 1, "aarch64": 4}[os.uname().machine]
    name, begin = Path(fixture).name, address_of("main", fixture)
    expected = [f"{begin:#x}\tmain ({name}+{begin:#x})",
                f"{called_from:#x}\texit+{12 - back:#x} ({name}+{called_from - back:#x})"]
    if printed[:2] != expected:
        yield "\n".join(["expected:", *expected, "printed:", *printed])


def error_problems(program, fixture):
    result = subprocess.run([program, fixture, "maim", "0x0"], capture_output=True, text=True)
    if result.returncode != 1:
        yield f"ended with {result.returncode}"
    if "no function 'maim'" not in result.stderr:
        yield f"says: {result.stderr}"


def main():
    build, page, fixture = sys.argv[1], Path(sys.argv[2]).read_text(), sys.argv[3]
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        try:
            prefix = installed(build, folder)
        except RuntimeError as error:
            tap.fail("meson install works", error)
            tap.done()
            return
        tap.check("everything is installed", list(missing_files(prefix)))
        tap.check("no installed header includes one that is not installed", list(missing_headers(prefix)))
        try:
            programs = build_examples(prefix, page, sys.argv[4:], Path(folder))
        except RuntimeError as error:
            tap.fail("the programs of the page are built with pkg-config", error)
        else:
            tap.ok("the programs of the page are built with pkg-config")
            tap.check("functions, static probes and addresses agree with readelf and nm",
                      list(points_problems(programs["points"], fixture)))
            tap.check("a function that is not there is an error",
                      list(error_problems(programs["points"], fixture)))
            tap.check("a saved stack has the frames that were put into it",
                      list(frames_problems(programs["frames"], fixture, Path(folder))))
    tap.done()


main()
