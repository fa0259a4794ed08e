#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the direction of #include lines and the namespaces of sources against src/modules.toml, and the table
that docs/ARCHITECTURE.md shows of it. Prints TAP, two cases per module and a few about itself.

    layers.py [SOURCE_ROOT]     check
    layers.py --write [ROOT]    put the table into docs/ARCHITECTURE.md
"""

import os
import re
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap

# The first folder or the name of an #include, and the library it belongs to.
LIBRARY_HEADERS = {"llvm": "llvm", "bpf": "bpf", "CLI": "CLI", "lzma.h": "lzma", "zlib.h": "zlib", "ncurses.h": "ncurses"}
TABLE = re.compile(r"\| module \| holds \| may use \|\n(?:\|.*\n)+")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
# A namespace of the project that begins at the start of a line, and what is in it if these are only declarations of types.
NAMESPACE = re.compile(r"^namespace uprobectl(?:::(\w+))?[\w:]* \{\n((?:(?:class|struct|enum class) [\w: ]+;.*\n|//.*\n)+\})?",
                       re.MULTILINE)
SOURCES = {".cpp", ".hpp", ".c", ".h"}


@dataclass
class Module:
    name: str
    holds: str
    uses: list[str]
    libraries: list[str]
    is_public: bool
    is_vocabulary: bool


class Modules(dict):
    """By name, in order."""

    @classmethod
    def read(cls, file: Path) -> "Modules":
        return cls((name, Module(name, entry["holds"], entry["uses"], entry["libraries"], entry.get("public", False),
                                 entry.get("vocabulary", False)))
                   for name, entry in tomllib.loads(file.read_text()).items())

    def allowed(self, name: str) -> set[str]:
        names = list(self)
        uses = self[name].uses
        return set(names[: names.index(name)] if uses == ["*"] else uses) | {name}

    def namespace(self, name: str) -> str:
        return "uprobectl" if self[name].is_vocabulary else f"uprobectl::{name}"

    def table(self) -> str:
        rows = ["| module | holds | may use |", "|---|---|---|"]
        for module in self.values():
            uses = "all above" if module.uses == ["*"] else ", ".join(module.uses)
            libraries = ", ".join({"llvm": "LLVM", "bpf": "libbpf", "CLI": "CLI11"}.get(one, one) for one in module.libraries)
            rows.append(f"| {module.name} | {module.holds} | {'; '.join(filter(None, [uses, libraries]))} |")
        return "\n".join(rows) + "\n"


def complaint(modules: Modules, name: str, public: bool, bracket: str, path: str) -> str | None:
    """Why a file of this module may not include path, or None."""
    first = Path(path).parts[0]
    if bracket == "<":
        if first in modules and first not in LIBRARY_HEADERS or first == "uprobectl":
            return "a header of this project is included with quotes"
        library = LIBRARY_HEADERS.get(first)
        if library is None or library in modules[name].libraries and not public:
            return None
        return f"a public header may not show {library}" if public else f"{name} may not use the library {library}"
    if first == "uprobectl":
        target = Path(path).parts[1].removesuffix(".hpp")
    elif public:
        return "a public header includes public headers only"
    else:
        target = first if "/" in path else name
    if target not in modules:
        return "no such module"
    return None if target in modules.allowed(name) else f"{name} may not use {target}"


def files_of(root: Path, name: str):
    """(file, is it public) for every source file of a module."""
    header = root / "include/uprobectl" / f"{name}.hpp"
    if header.exists():
        yield header, True
    for folder, public in ((root / "include/uprobectl" / name, True), (root / "src" / name, False)):
        for file in sorted(folder.rglob("*")):
            if file.suffix in SOURCES:
                yield file, public


def violations(modules: Modules, root: Path, name: str):
    for file, public in files_of(root, name):
        text = file.read_text()
        for match in INCLUDE.finditer(text):
            path = match[2]
            if path.startswith("."):  # C sources for BPF: no include folder of ours is given there
                path = os.path.relpath(file.parent / path, root / "src")
            why = complaint(modules, name, public, match[1], path)
            if why:
                line = text.count("\n", 0, match.start(2)) + 1
                yield f"{file.relative_to(root)}:{line}: {match[2]}: {why}"


def namespace_violations(modules: Modules, root: Path, name: str):
    own = None if modules[name].is_vocabulary else name
    for file, _ in files_of(root, name):
        if file.suffix not in {".cpp", ".hpp"}:  # C headers that BPF programs include, too
            continue
        text = file.read_text()
        for match in NAMESPACE.finditer(text):
            opened, forward_declarations = match.groups()
            if own is None and opened not in modules or opened == own:
                continue
            if forward_declarations and (opened is None or opened in modules):
                continue
            line = text.count("\n", 0, match.start()) + 1
            yield f"{file.relative_to(root)}:{line}: declarations of {name} are in {modules.namespace(name)}"


def unknown_folders(modules: Modules, root: Path):
    for folder in (root / "src").iterdir():
        if folder.is_dir() and folder.name not in modules:
            yield f"{folder.relative_to(root)}: not in src/modules.toml"
    for header in (root / "include/uprobectl").iterdir():
        if header.stem not in modules or not modules[header.stem].is_public:
            yield f"{header.relative_to(root)}: not the header of a public module"


BROKEN_TREE = {
    "src/elf/a.cpp": '#include "uprobectl/symbols.hpp"\n',
    "src/archive/a.cpp": "#include <llvm/Object/ELF.h>\n",
    "src/art/a.cpp": "#include <lzma.h>\n",
    "src/process/a.cpp": "\n#  include <bpf/libbpf.h>\n",
    "src/trace/a.cpp": "#include <CLI/CLI.hpp>\n",
    "src/path/a.cpp": "#include <uprobectl/util.hpp>\n",
    "src/unwind/a.hpp": '#include "trace/a.hpp"\n',
    "include/uprobectl/unwind.hpp": "#include <llvm/Object/ELF.h>\n",
    "include/uprobectl/usdt/a.hpp": '#include "uprobectl/symbols.hpp"\n',
    "include/uprobectl/resolve.hpp": '#include "process/a.hpp"\n',
    "src/resolve/a.cpp": '#include "uprobectl/nowhere.hpp"\n',
    "src/bpf/programs/a.bpf.c": '#include "../../events/a.h"\n',
}
SOUND_TREE = {
    "src/symbols/a.cpp": '#include "symbols/a.hpp"\n#include "uprobectl/elf.hpp"\n#include <llvm/X.h>\n',
    "src/bpf/programs/a.bpf.c": '#include "../record.h"\n',
    "src/bpf/a.cpp": '#include <bpf/libbpf.h>\n#include "bpf/a.hpp"\n#include <linux/bpf.h>\n',
    "src/cli/a.cpp": '#include "a.hpp"\n#include "trace/a.hpp"\n#include <CLI/CLI.hpp>\n',
    "include/uprobectl/elf.hpp": '#include "uprobectl/path.hpp"\n#include <vector>\n',
}

BROKEN_NAMESPACES = {
    "include/uprobectl/elf.hpp": "namespace uprobectl {\n\nclass Image;\n\n}\n",
    "src/elf/a.cpp": "namespace uprobectl {\nint count();\n}\n",
    "src/elf/b.cpp": "namespace uprobectl::detail {\n\nclass Image;\n\n}\n",
    "src/symbols/a.cpp": "namespace uprobectl::elf {\nclass Image;\nint count();\n}\n",
    "src/elf/c.hpp": "namespace uprobectl::nowhere {\nclass Run;\n}\n",
    "src/util/a.hpp": "namespace uprobectl::util {\nint count();\n}\n",
}
SOUND_NAMESPACES = {
    "include/uprobectl/elf.hpp": "namespace uprobectl {\nclass Bytes;\n}\n\nnamespace uprobectl::elf {\nint count();\n}\n",
    "src/elf/a.cpp": "namespace uprobectl::elf::detail {\nint count();\n}\n",
    "src/symbols/a.hpp": "namespace uprobectl::elf {\nclass Image; // an ELF file\nstruct Section;\n}\n",
    "src/util/a.hpp": "namespace uprobectl {\nint count();\n}\n\nnamespace uprobectl::detail {\nint count();\n}\n",
}


def violations_in(modules: Modules, tree: dict[str, str], rule=violations) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        for name, text in tree.items():
            file = Path(folder, name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return [v for name in modules for v in rule(modules, Path(folder), name)]


def check(root: Path, modules: Modules):
    tap = Tap()
    names = list(modules)
    tap.check("the list itself points upwards only",
              [f"{name} uses {used}" for name in names for used in modules[name].uses
               if used != "*" and (used not in names or names.index(used) >= names.index(name))])
    found = " ".join(violations_in(modules, BROKEN_TREE))
    tap.check("every fault of a broken tree is found",
              [f"not found: {name}" for name in BROKEN_TREE if name not in found])
    tap.check("a sound tree has none", violations_in(modules, SOUND_TREE))
    found = " ".join(violations_in(modules, BROKEN_NAMESPACES, namespace_violations))
    tap.check("every wrong namespace of a broken tree is found",
              [f"not found: {name}" for name in BROKEN_NAMESPACES if name not in found])
    tap.check("a tree with the right namespaces has none", violations_in(modules, SOUND_NAMESPACES, namespace_violations))
    tap.check("modules of the vocabulary use only each other",
              [f"{name} uses {used}" for name in names if modules[name].is_vocabulary for used in modules[name].uses
               if used != "*" and not modules[used].is_vocabulary])
    tap.check("every folder and public header belongs to a module", list(unknown_folders(modules, root)))
    for name in names:
        tap.check(f"{name} includes only what it may use", list(violations(modules, root, name)))
        tap.check(f"{name} declares in {modules.namespace(name)}", list(namespace_violations(modules, root, name)))
    tap.check("docs/ARCHITECTURE.md shows this list",
              [] if modules.table() in (root / "docs/ARCHITECTURE.md").read_text()
              else ["another table; run: python3 tests/lint/layers.py --write"])
    tap.done()


def main():
    words = [word for word in sys.argv[1:] if word != "--write"]
    root = Path(words[0] if words else ".").resolve()
    modules = Modules.read(root / "src/modules.toml")
    if "--write" not in sys.argv:
        check(root, modules)
        return
    page = root / "docs/ARCHITECTURE.md"
    text, count = TABLE.subn(lambda _: modules.table(), page.read_text())
    if count != 1:
        sys.exit(f"{page}: has {count} tables of modules")
    page.write_text(text)


main()
