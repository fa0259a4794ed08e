#!/usr/bin/env python3
"""What `meson install` installs: the program of docs/library.md is built against it as the page says,
and prints what readelf and nm say of a fixture; no installed header needs one that is not installed.
Usage: installed_library.py BUILD PAGE FIXTURE COMPILER…; prints TAP."""

import os
import re
import shlex
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


def build_example(prefix, page, compiler, folder):
    """Compiles the page's program with the flags that the page tells."""
    source = re.search(r"^```cpp\n(.*?)^```", page, re.M | re.S)[1]
    (folder / "places.cpp").write_text(source)
    flags = re.search(r"\$\((pkg-config .*?)\)", page)[1].split()
    module = next(prefix.rglob("uprobectl.pc"))
    environment = {**os.environ, "PKG_CONFIG_PATH": str(module.parent)}
    flags[1:1] = [f"--define-variable=prefix={prefix}"]  # installed below DESTDIR
    words = shlex.split(run(flags, env=environment))
    run([*compiler, "-std=c++23", "places.cpp", "-o", "places", *words], cwd=folder)
    return folder / "places"


def file_offset(fixture, address):
    """By the program headers that readelf prints."""
    for line in run(["readelf", "-lW", fixture]).splitlines():
        if words := re.match(r"\s+LOAD\s+" + r"(0x\w+)\s+" * 5, line):
            offset, start, _, size, _ = (int(word, 16) for word in words.groups())
            if start <= address < start + size:
                return address - start + offset
    raise ValueError(f"{address:#x} is in no segment")


def main_of(fixture):
    return next(int(line.split()[0], 16) for line in run(["nm", fixture]).splitlines()
                if line.endswith(" T main"))


def static_probes(fixture):
    """Offset and name of each, by readelf -n."""
    notes = run(["readelf", "-nW", fixture])
    found = re.findall(r"Provider: (\S+)\s+Name: (\S+)\s+Location: (0x\w+)", notes)
    return [(file_offset(fixture, int(place, 16)), f"{provider}:{name}")
            for provider, name, place in found]


def output_problems(program, fixture):
    begin = main_of(fixture)
    printed = run([program, fixture, "main", f"{begin + 4:#x}"]).splitlines()
    probes = static_probes(fixture)
    expected = [f"{file_offset(fixture, begin):#x}\tmain",
                *(f"{offset:#x}\t{name}" for offset, name in probes),
                f"{file_offset(fixture, begin + 4):#x}\tmain+0x4"]
    if not probes:
        yield "readelf shows no static probe in the fixture"
    if sorted(printed[1:-1]) != sorted(expected[1:-1]) or printed[::len(printed) - 1] != expected[::len(expected) - 1]:
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
            program = build_example(prefix, page, sys.argv[4:], Path(folder))
        except RuntimeError as error:
            tap.fail("the program of the page is built with pkg-config", error)
        else:
            tap.ok("the program of the page is built with pkg-config")
            tap.check("it prints what readelf and nm say", list(output_problems(program, fixture)))
            tap.check("a function that is not there is an error", list(error_problems(program, fixture)))
    tap.done()


main()
