# SPDX-License-Identifier: Apache-2.0
"""Reads files of command-line test cases. The format is described in run_cli_tests.py."""

import re
import shlex
from dataclasses import dataclass, field


class FormatError(Exception):
    pass


@dataclass
class Command:
    argv: list
    line: int
    only_prepares: bool = True  # nothing is expected of it but an exit status of 0
    exit: int = 0
    stdout: list = field(default_factory=list)  # lines, as every block; None: anything
    stderr: list = field(default_factory=list)
    json: list = None  # None: stdout is text


@dataclass
class Case:
    name: str
    line: int
    commands: list = field(default_factory=list)
    needs: list = field(default_factory=list)
    env: dict = field(default_factory=dict)
    timeout: float = 30
    stdin: list = field(default_factory=list)  # of the last command


BLOCKS = {"stdout", "stderr", "json"}
HEADING = re.compile(r"=== (\S.*)$")
KEYWORD = re.compile(r"(\w+):(?: (.*))?$")


def expect(case, key, value):
    """Of the command before it."""
    if not case.commands:
        raise ValueError(f"'{key}:' before the first command")
    case.commands[-1].only_prepares = False
    setattr(case.commands[-1], key, value)


def set_keyword(case, key, value):
    if key == "exit":
        expect(case, key, int(value))
    elif key == "timeout":
        case.timeout = float(value)
    elif key == "needs":
        case.needs += value.split()
    elif key == "env":
        name, _, content = value.partition("=")
        case.env[name] = content
    elif key in {"stdout", "stderr"} and value == "*":
        expect(case, key, None)
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
                cases[-1].commands.append(Command(shlex.split(line[2:]), number))
                continue
            keyword = KEYWORD.match(line)
            if not keyword:
                raise ValueError(f"not understood: {line}")
            if keyword[1] == "stdin" and not keyword[2]:
                block = cases[-1].stdin = []
            elif keyword[1] in BLOCKS and not keyword[2]:
                block = []
                expect(cases[-1], keyword[1], block)
            else:
                set_keyword(cases[-1], keyword[1], keyword[2] or "")
        except ValueError as error:
            raise FormatError(f"line {number}: {error}") from error
    for case in cases:
        if not case.commands:
            raise FormatError(f"line {case.line}: '{case.name}' has no '$ command'")
        case.commands[-1].only_prepares = False
    return cases
