# SPDX-License-Identifier: Apache-2.0
"""Which files have to say their licence, and in which words. In the form of https://reuse.software, except
that data, documents and settings are under ../LICENSE without a line of their own."""

import re

SUFFIXES = {".cpp", ".hpp", ".c", ".h", ".S", ".py", ".sh", ".go", ".rs", ".java", ".ld", ".proto", ".toml"}
TEMPLATES = {"share/bash-completion/uprobectl.in", "share/zsh/_uprobectl.in", "share/man/uprobectl.1.in"}
SCRIPT = re.compile(rb"#!.*\b(sh|bash|python3)\b")
LINE = re.compile(r'(?://|#|/\*|\.\\") SPDX-License-Identifier: (.*?)(?: \*/)?$')
# BPF programs declare `Dual BSD/GPL` to the kernel (LICENSES/README.md), with the headers that they include.
DUAL = "(BSD-2-Clause OR GPL-2.0-only)"
DUAL_FILES = re.compile(r".*\.bpf\.c|src/bpf/programs/.*\.h|src/bpf/((processes_|waits_)?record|record_types|id_namespace)\.h|src/arch/pt_regs\.h")
HEAD_LINES = 3  # after a line for the interpreter, the shell or shellcheck


def licence_of(name):
    return DUAL if DUAL_FILES.fullmatch(name) else "Apache-2.0"


def needs_licence_line(name, path):
    if path.suffix in SUFFIXES or path.name in {"meson.build", "meson_options.txt"} or name in TEMPLATES:
        return True
    with path.open("rb") as file:
        return bool(SCRIPT.match(file.readline()))


def licence_line(text):
    """What a file says. It stands at the top; in fixtures at the end, because tests know their lines."""
    lines = text.splitlines()
    return next((match[1] for line in lines[:HEAD_LINES] + lines[-1:] if (match := LINE.match(line))), None)


def licence_problems(files):
    for name, path in files:
        if needs_licence_line(name, path) and (said := licence_line(path.read_text())) != licence_of(name):
            yield f"{name}: expected SPDX-License-Identifier: {licence_of(name)}, found {said or 'none'}"
