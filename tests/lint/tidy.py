#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs clang-tidy over every source file under src/ that the build directory compiles.
Usage: tidy.py SOURCE_ROOT BUILD_DIR [MODULE…]; prints TAP, one case per module.

Most of clang-tidy's time goes into the standard library's headers, so the files of several modules are
checked as one translation unit: several times faster. Where something is found in it, each module is
checked alone, which says what is its own. Where the files of a module do not go together (two of them
with the same name in their anonymous namespaces), they are checked one by one.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap

# The static analyzer takes two fifths of the time, and of what is left the first of these checks up to a
# third, the others together two fifths: they run where they are asked for (tools/test --full).
COSTLY = ("performance-unnecessary-value-param", "modernize-redundant-void-arg", "misc-unused-using-decls",
          "bugprone-stringview-nullptr", "bugprone-standalone-empty", "bugprone-suspicious-string-compare",
          "bugprone-assert-side-effect", "bugprone-multiple-statement-macro", "bugprone-suspicious-semicolon",
          "misc-coroutine-hostile-raii", "misc-confusable-identifiers", "misc-misleading-identifier",
          "readability-redundant-inline-specifier", "bugprone-reserved-identifier", "readability-redundant-control-flow",
          "readability-redundant-declaration", "cppcoreguidelines-virtual-class-destructor", "bugprone-chained-comparison",
          "bugprone-inc-dec-in-conditions", "google-global-names-in-headers", "misc-definitions-in-headers",
          "misc-non-copyable-objects", "misc-redundant-expression", "modernize-use-bool-literals",
          "performance-type-promotion-in-math-fn", "misc-unconventional-assign-operator", "bugprone-multiple-new-in-one-expression",
          "readability-static-definition-in-anonymous-namespace", "bugprone-misplaced-widening-cast", "misc-misplaced-const")
CHECKS = [] if os.environ.get("UPROBECTL_ANALYZE") else [f"--checks=-clang-analyzer-*,{','.join('-' + check for check in COSTLY)}"]
# Modules whose names do not meet, some thirty files together. The others are units of their own.
UNITS = (("util", "arch", "path", "archive", "elf", "usdt"), ("insn", "process", "symbolize"), ("art", "resolve"),
         ("dwarf", "unwind"), ("bpf", "doctor", "inventory", "plans", "probe", "verify"), ("host", "uprobestats"),
         ("saved", "trace"))
DOES_NOT_COMPILE = "[clang-diagnostic-error]"
# How many states of a function the static analyzer follows: two thirds of its time went into the few
# functions that have more (its own limit is 225,000).
ANALYZER_LIMIT = ["-Xclang", "-analyzer-config", "-Xclang", "max-nodes=30000"]


def files_of(command):
    """What a compile command compiles: of a unit of several files (unity_sources) each of them."""
    file = Path(command["directory"]) / command["file"]
    if re.search(r"-unity\d+\.cpp$", file.name):
        return [Path(name).resolve() for name in re.findall("#include *<(.+)>", file.read_text())]
    return [file.resolve()]


def modules_of(root, build):
    """The compile commands of the sources, by module."""
    modules = defaultdict(dict)
    for command in json.loads((build / "compile_commands.json").read_text()):
        for file in files_of(command):
            if file.is_relative_to(root / "src") and file.suffix == ".cpp":
                modules[file.relative_to(root / "src").parts[0]][file] = command
    return modules


def flags_of(command):
    """Without what names the one file's input, output and dependencies."""
    return [word for word in shlex.split(command["command"])[1:]
            if word not in {"-c", "-MD", "-MQ", "-MF", "-o", command["file"]}
            and not word.endswith((".cpp.o", ".cpp.o.d", "clang++-19"))]


def together(build, name, files):
    """One unit of all files. The static analyzer looks into included sources only if the unit's name
    begins like this."""
    folder = build / "tidy"
    folder.mkdir(exist_ok=True)
    unit = folder / f"UnifiedSource-{name}.cpp"
    silence = "// NOLINT(bugprone-suspicious-include)"
    unit.write_text("".join(f'#include "{file}" {silence}\n' for file in files))
    return unit


def run(root, build, file, flags):
    # The configuration by hand: the units lie in the build folder, where no .clang-tidy is looked for.
    # Meson runs the compiler in the build folder, so its -I are relative to that. Names of other files
    # shadow nothing; the build judges each file.
    command = ["clang-tidy-19", "--quiet", f"--config-file={root / '.clang-tidy'}", *CHECKS, str(file), "--", *flags, "-Wno-shadow", *ANALYZER_LIMIT]
    result = subprocess.run(command, cwd=build, capture_output=True, text=True)
    # stderr only counts suppressed warnings, unless clang-tidy itself failed
    return "" if result.returncode == 0 else result.stdout.strip() or result.stderr.strip()


def tidy_module(root, build, module, commands):
    files = sorted(commands)
    flags = flags_of(commands[files[0]])
    report = run(root, build, together(build, module, files), flags)
    if DOES_NOT_COMPILE in report and len(files) > 1:
        report = "\n".join(filter(None, [run(root, build, file, flags) for file in files]))
        print(f"# {module}: checked file by file", file=sys.stderr)
    return report


def tidy(root, build, unit, modules):
    """The reports on a unit's modules."""
    if len(unit) > 1:
        commands = {file: command for module in unit for file, command in modules[module].items()}
        files = sorted(commands)
        if not run(root, build, together(build, "-".join(unit), files), flags_of(commands[files[0]])):
            return [""] * len(unit)
        print(f"# {', '.join(unit)}: checked module by module", file=sys.stderr)
    return [tidy_module(root, build, module, modules[module]) for module in unit]


def units_of(names):
    named = [tuple(module for module in unit if module in names) for unit in UNITS]
    others = [(module,) for module in names if not any(module in unit for unit in UNITS)]
    return [unit for unit in named + others if unit]


def main():
    root, build = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    modules = modules_of(root, build)
    units = units_of(sys.argv[3:] or sorted(modules))
    # Long ones first, so that no processor waits for the last.
    units.sort(key=lambda unit: -sum(len(modules[module]) for module in unit))
    tap = Tap()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        all_reports = pool.map(lambda unit: tidy(root, build, unit, modules), units)
        for unit, reports in zip(units, all_reports):
            for module, report in zip(unit, reports):
                tap.check(f"{module} is tidy ({len(modules[module])} files)", [report[:8000]] if report else [])
    tap.done()


main()
