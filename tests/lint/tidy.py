#!/usr/bin/env python3
"""Runs clang-tidy over every source file under src/ that the build directory compiles.
Usage: tidy.py SOURCE_ROOT BUILD_DIR [ROOM…]; prints TAP, one case per room.

Most of clang-tidy's time goes into the standard library's headers, so the files of a room are
checked as one translation unit: several times faster. Where they do not go together (two files with
the same name in their anonymous namespaces), that room is checked file by file.
"""

import json
import os
import shlex
import subprocess
import sys
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap

DOES_NOT_COMPILE = "[clang-diagnostic-error]"


def rooms_of(root, build):
    """The compile commands of the sources, by room."""
    rooms = defaultdict(dict)
    for command in json.loads((build / "compile_commands.json").read_text()):
        file = (Path(command["directory"]) / command["file"]).resolve()
        if file.is_relative_to(root / "src") and file.suffix == ".cpp":
            rooms[file.relative_to(root / "src").parts[0]][file] = command
    return rooms


def together(build, room, commands):
    """One unit of all files, with the flags of the first. The static analyzer looks into included
    sources only if the unit's name begins like this."""
    folder = build / "tidy"
    folder.mkdir(exist_ok=True)
    unit = folder / f"UnifiedSource-{room}.cpp"
    silence = "// NOLINT(bugprone-suspicious-include)"
    unit.write_text("".join(f'#include "{file}" {silence}\n' for file in sorted(commands)))
    command = next(iter(commands.values()))
    words = shlex.split(command["command"])
    # Without what names the one file's input, output and dependencies.
    flags = [w for w in words[1:] if w not in {"-c", "-MD", "-MQ", "-MF", "-o", command["file"]}
             and not w.endswith((".cpp.o", ".cpp.o.d"))]
    # Meson runs the compiler in the build folder, so its -I are relative to that.
    return ["clang-tidy-19", "--quiet", str(unit), "--", *flags]


def run(command, build):
    result = subprocess.run(command, cwd=build, capture_output=True, text=True)
    # stderr only counts suppressed warnings, unless clang-tidy itself failed
    return "" if result.returncode == 0 else result.stdout.strip() or result.stderr.strip()


def configuration(root):
    """Given by hand: the units lie in the build folder, where no .clang-tidy is looked for."""
    return f"--config-file={root / '.clang-tidy'}"


def tidy(root, build, room, commands):
    command = together(build, room, commands)
    report = run([*command[:2], configuration(root), *command[2:]], build)
    if DOES_NOT_COMPILE in report and len(commands) > 1:
        reports = [run(["clang-tidy-19", "--quiet", configuration(root), "-p", str(build), str(file)],
                       build) for file in sorted(commands)]
        report = "\n".join(filter(None, reports))
        print(f"# {room}: checked file by file", file=sys.stderr)
    return report


def main():
    root, build = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    rooms = rooms_of(root, build)
    names = sys.argv[3:] or sorted(rooms, key=lambda room: -len(rooms[room]))  # long ones first
    tap = Tap()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        reports = pool.map(lambda room: tidy(root, build, room, rooms[room]), names)
        for room, report in zip(names, reports):
            tap.check(f"{room} is tidy ({len(rooms[room])} files)", [report[:8000]] if report else [])
    tap.done()


main()
