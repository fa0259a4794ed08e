# SPDX-License-Identifier: Apache-2.0
"""Reads files of command-line test cases. The format is described in run_cli_tests.py."""

import re
import shlex
from dataclasses import dataclass, field


class FormatError(Exception):
    pass


@dataclass
class Case:
    name: str
    line: int
    commands: list = field(default_factory=list)  # argv lists; the last one is the one under test
    needs: list = field(default_factory=list)
    env: dict = field(default_factory=dict)
    exit: int = 0
    timeout: float = 30
    stdin: list = field(default_factory=list)  # lines, as every block
    stdout: list = field(default_factory=list)
    stderr: list = field(default_factory=list)
    json: list = None  # None: stdout is text


BLOCKS = {"stdin", "stdout", "stderr", "json"}
HEADING = re.compile(r"=== (\S.*)$")
KEYWORD = re.compile(r"(\w+):(?: (.*))?$")


def set_keyword(case, key, value):
    if key == "exit":
        case.exit = int(value)
    elif key == "timeout":
        case.timeout = float(value)
    elif key == "needs":
        case.needs += value.split()
    elif key == "env":
        name, _, content = value.partition("=")
        case.env[name] = content
    elif key in {"stdout", "stderr"} and value == "*":
        setattr(case, key, None)
    else:
        raise ValueError(f"no keyword '{key}: {value}'")


def parse(text):
    """The cases of one file, in order."""
    cases, block = [], None
    for number, line in enumerate(text.splitlines(), 1):
        try:
            # A block ends where the indentation ends; an empty line inside it needs two spaces.
            if block is not None and line.startswith("  "):
                block.append(line[2:])
                continue
            block = None
            if not line.strip() or line.startswith("#"):
                continue
            if heading := HEADING.match(line):
                cases.append(Case(heading[1].strip(), number))
                continue
            if not cases:
                raise ValueError("text before the first '=== name'")
            if line.startswith("$ "):
                cases[-1].commands.append(shlex.split(line[2:]))
                continue
            keyword = KEYWORD.match(line)
            if not keyword:
                raise ValueError(f"not understood: {line}")
            if keyword[1] in BLOCKS and not keyword[2]:
                block = []
                setattr(cases[-1], keyword[1], block)
            else:
                set_keyword(cases[-1], keyword[1], keyword[2] or "")
        except ValueError as error:
            raise FormatError(f"line {number}: {error}") from error
    for case in cases:
        if not case.commands:
            raise FormatError(f"line {case.line}: '{case.name}' has no '$ command'")
    return cases
