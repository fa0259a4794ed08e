#!/usr/bin/env python3
"""Checks the direction of #include lines: the rooms and what each may use, as docs/ARCHITECTURE.md
draws them. Usage: layers.py [SOURCE_ROOT]; prints TAP, one case per room and a few about itself."""

import os
import re
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap

# Room, and the rooms it may use; "*" = all above. The order matters: nothing includes downwards.
ROOMS = {
    "base": "",
    "arch": "base",
    "spelling": "",
    "path": "base",
    "archive": "base spelling",
    "elf": "base arch path archive",
    "insn": "base arch",
    "symbols": "base arch spelling elf",
    "usdt": "base arch elf",
    "art": "base arch archive elf",
    "process": "base path archive",
    "symbolize": "base path archive elf symbols art process",
    "resolve": "*",
    "bpf": "base arch spelling elf",
    "attach": "base resolve bpf",
    "doctor": "base arch process bpf attach",
    "stacks": "base arch path archive elf art process symbolize",
    "events": "base arch spelling usdt resolve bpf",
    "inventory": "base process symbolize bpf",
    "drawing": "base",
    "output": "base path symbols usdt resolve bpf doctor inventory events symbolize stacks",
    "verify": "base path resolve output",
    "session": "*",
    "uprobestats": "*",
    "cli": "*",
}

# The first folder of an #include, and the rooms whose private files may name it. Public headers
# may name none of these, so that a user of the library needs none of them.
LIBRARIES = {
    "llvm": {"elf", "insn", "symbols", "stacks", "output"},
    "bpf": {"bpf", "attach", "events"},
    "CLI": {"cli"},
    "fmt": set(ROOMS),
}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
SOURCES = {".cpp", ".hpp", ".c", ".h"}


def allowed(room):
    names = list(ROOMS)
    if ROOMS[room] == "*":
        return set(names[: names.index(room) + 1])
    return set(ROOMS[room].split()) | {room}


def room_of_public(path):
    """uprobectl/elf.hpp and uprobectl/elf/x.hpp belong to the room elf."""
    return Path(path).parts[1].removesuffix(".hpp")


def complaint(room, public, bracket, path):
    """Why a file of this room may not include path, or None."""
    first = Path(path).parts[0]
    if bracket == '"' and first == "uprobectl":
        target = room_of_public(path)
        if target not in ROOMS:
            return "no such room"
        return None if target in allowed(room) else f"{room} may not use {target}"
    if first in LIBRARIES and len(Path(path).parts) > 1 and (bracket == "<" or first not in ROOMS):
        if public:
            return f"a public header may not show {first}"
        return None if room in LIBRARIES[first] else f"{room} may not use the library {first}"
    if bracket == "<":
        return "a header of this project is included with quotes" if first == "uprobectl" else None
    if public:
        return "a public header includes public headers only"
    target = first if "/" in path else room
    if target not in ROOMS:
        return "no such room"
    if room == "cli" and target != "cli":
        return f"cli may include public headers only, not the private ones of {target}"
    return None if target in allowed(room) else f"{room} may not use {target}"


def files_of(root, room):
    """(file, is it public) for every source file of a room."""
    header = root / "include/uprobectl" / f"{room}.hpp"
    if header.exists():
        yield header, True
    for folder, public in ((root / "include/uprobectl" / room, True), (root / "src" / room, False)):
        for file in sorted(folder.rglob("*")):
            if file.suffix in SOURCES:
                yield file, public


def violations(root, room):
    for file, public in files_of(root, room):
        text = file.read_text()
        for match in INCLUDE.finditer(text):
            path = match[2]
            if path.startswith("."):  # C sources for BPF: no include folder of ours is given there
                path = os.path.relpath(file.parent / path, root / "src")
            why = complaint(room, public, match[1], path)
            if why:
                line = text.count("\n", 0, match.start(2)) + 1
                yield f"{file.relative_to(root)}:{line}: {match[2]}: {why}"


def unknown_places(root):
    folders = [p for p in (root / "src").iterdir() if p.is_dir()]
    headers = list((root / "include/uprobectl").iterdir())
    return [str(p.relative_to(root)) for p in folders + headers if p.stem not in ROOMS]


BROKEN_TREE = {
    "src/elf/a.cpp": '#include "uprobectl/symbols.hpp"\n',
    "src/archive/a.cpp": "#include <llvm/Object/ELF.h>\n",
    "src/cli/a.cpp": '#include "elf/private.hpp"\n',
    "src/process/a.cpp": "\n#  include <bpf/libbpf.h>\n",
    "src/session/a.cpp": "#include <CLI/CLI.hpp>\n",
    "src/path/a.cpp": "#include <uprobectl/base.hpp>\n",
    "include/uprobectl/stacks.hpp": "#include <llvm/Object/ELF.h>\n",
    "include/uprobectl/usdt/a.hpp": '#include "uprobectl/symbols.hpp"\n',
    "src/resolve/a.cpp": '#include "uprobectl/nowhere.hpp"\n',
    "src/bpf/programs/a.bpf.c": '#include "../../events/a.h"\n',
}
SOUND_TREE = {
    "src/symbols/a.cpp": '#include "symbols/a.hpp"\n#include "uprobectl/elf.hpp"\n#include <llvm/X.h>\n',
    "src/bpf/programs/a.bpf.c": '#include "../record.h"\n',
    "src/bpf/a.cpp": '#include <bpf/libbpf.h>\n#include "bpf/a.hpp"\n#include <linux/bpf.h>\n',
    "src/cli/a.cpp": '#include "a.hpp"\n#include "uprobectl/session.hpp"\n#include <CLI/CLI.hpp>\n',
    "include/uprobectl/elf.hpp": '#include "uprobectl/path.hpp"\n#include <vector>\n',
}


def violations_in(tree):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in tree.items():
            file = Path(folder, name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return [v for room in ROOMS for v in violations(Path(folder), room)]


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    tap = Tap()
    names = list(ROOMS)
    tap.check("the table itself points upwards only",
              [f"{room} uses {used}" for room in names for used in ROOMS[room].split()
               if used != "*" and names.index(used) >= names.index(room)])
    found = " ".join(violations_in(BROKEN_TREE))
    tap.check("every fault of a broken tree is found",
              [f"not found: {name}" for name in BROKEN_TREE if name not in found])
    tap.check("a sound tree has none", violations_in(SOUND_TREE))
    tap.check("every folder and public header belongs to a room", unknown_places(root))
    for room in names:
        if any(True for _ in files_of(root, room)):
            tap.check(f"{room} includes only what it may use", list(violations(root, room)))
    tap.done()


main()
