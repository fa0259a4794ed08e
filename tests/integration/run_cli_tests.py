#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs command lines and compares what they print, as files of cases describe. Prints TAP.

    run_cli_tests.py --bin PROGRAM [--fixtures DIR] FILE.test…

A file holds cases. Each begins with a title, and ends at the next one:

    # A comment. Outside of blocks, empty lines mean nothing.

    === an unknown subcommand is an error that suggests the nearest name
    $ uprobectl resolv libc.so.6 malloc
    stderr:
      uprobectl: error: no command 'resolv'
        hint: did you mean 'resolve'?
    exit: 2

    === a function of a fixture is found, in JSON
    $ cp {fixtures}/pinned.so {tmp}/a.so
    $ uprobectl resolve --json a.so work
    json:
      {"type": "match", "file": "{tmp}/a.so", "offset": "0x1200", "version": null}

$ COMMAND    quoted as for a shell, but no shell runs it. What is expected of it follows. Of
             several, one without expectations prepares the next: it must end with 0. `uprobectl`
             is the program given with --bin. The current folder is {tmp}, new and empty for every
             case; stdin is empty.
exit: N      the exit status, when it is not 0
stdout:      the lines expected, indented by two spaces; none expected when the block is missing.
stderr:      `stdout: *` takes anything. A line `...` stands for any number of lines.
stdin:       lines the last command reads
json:        stdout as JSON Lines: one record per line, with the keys that matter; others are not
             looked at. Numbers, strings and null differ.
             Besides, all JSON Lines that `uprobectl` prints in any command are validated against
             share/uprobectl/records.schema.json.
env: A=B     an environment variable
needs: X…    corpus, root, native (the program under test is for this machine, and no script that runs it
             in an emulator), or the name of a program: else the case is skipped, and says why
timeout: S   seconds, when 30 is not enough

In commands and expectations {bin}, {fixtures}, {tmp} and {corpus} are replaced by these paths, and
in expectations {{REGEX}} is a hole for what varies. In text, \\t is a tab and \\\\ a backslash.
"""

import argparse
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from cli_cases import FormatError, parse
from cli_match import fill, json_problem, text_problem
from record_schema import RecordSchema
from tap import Tap


@functools.cache
def record_schema():
    return RecordSchema()


def schema_problems(argv, stdout):
    """Of what the program prints as JSON Lines."""
    is_ours = argv[0] == "uprobectl" or any("{bin}" in word for word in argv)
    if not is_ours or not stdout.startswith('{"type":'):
        return []
    return record_schema().problems(stdout.split("\n"))


def missing_need(case, paths):
    """Why the case cannot run here, or None."""
    uses_corpus = "corpus" in case.needs or any(
        "{corpus}" in word for command in case.commands for word in command.argv)
    if uses_corpus and not paths["corpus"]:
        return "UPROBECTL_CORPUS is not set"
    for need in case.needs:
        if need == "root" and os.geteuid() != 0:
            return "not root"
        if need == "native" and Path(paths["bin"]).read_bytes()[:4] != b"\x7fELF":
            return "the program is emulated"
        if need not in {"root", "corpus", "native"} and not shutil.which(need):
            return f"no program '{need}'"
    return None


def run(argv, case, paths, stdin=""):
    # A fixed environment: no locale, colour or terminal of the caller reaches the program.
    path = f"{Path(paths['bin']).parent}:{os.environ.get('PATH', '/usr/bin:/bin')}"
    environment = {"PATH": path, "HOME": paths["tmp"], "LC_ALL": "C.UTF-8",
                   **{k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")},
                   **{k: fill(v, paths) for k, v in case.env.items()}}
    argv = [fill(word, paths) for word in argv]
    if argv[0] == "uprobectl":
        argv[0] = paths["bin"]
    return subprocess.run(argv, input=stdin.encode(), capture_output=True, env=environment,
                          cwd=paths["tmp"], timeout=case.timeout)


def problems_of_command(command, case, paths, stdin):
    """Everything that is not as expected of the command."""
    result = run(command.argv, case, paths, stdin)
    stdout, stderr = (text.decode(errors="replace") for text in (result.stdout, result.stderr))
    problems = schema_problems(command.argv, stdout)
    if command.only_prepares:
        if result.returncode != 0:
            problems.append(f"exit status {result.returncode}: {stderr}")
        return problems
    problems.append(text_problem("stderr", command.stderr, stderr, paths))
    if command.json is None:
        problems.append(text_problem("stdout", command.stdout, stdout, paths))
    else:
        problems.append(json_problem(command.json, stdout, paths))
    if result.returncode != command.exit:
        problems.append(f"exit status {result.returncode}, expected {command.exit}")
    return [p for p in problems if p]


def problems_of(case, paths):
    """Those of the first command that has any, and the command."""
    for command in case.commands:
        is_last = command is case.commands[-1]
        lines = case.stdin if is_last else []
        stdin = "".join(fill(line, paths) + "\n" for line in lines)
        try:
            problems = problems_of_command(command, case, paths, stdin)
        except subprocess.TimeoutExpired:
            problems = [f"did not end after {case.timeout} s"]
        except OSError as error:
            problems = [f"could not be run: {error}"]
        if problems:
            return [f"$ {' '.join(command.argv)}   (line {command.line})", *problems]
    return []


def run_case(case, paths, tap, name):
    if reason := missing_need(case, paths):
        tap.skip(name, reason)
        return
    with tempfile.TemporaryDirectory(prefix="uprobectl-cli-") as folder:
        paths = {**paths, "tmp": os.path.realpath(folder)}
        problems = problems_of(case, paths)
    tap.check(name, problems)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--fixtures", default=".")
    parser.add_argument("files", nargs="+", type=Path)
    options = parser.parse_args()
    corpus = os.environ.get("UPROBECTL_CORPUS", "")
    paths = {"bin": os.path.realpath(options.bin), "fixtures": os.path.realpath(options.fixtures),
             "corpus": os.path.realpath(corpus) if corpus else "", "tmp": ""}
    tap = Tap()
    for file in options.files:
        try:
            cases = parse(file.read_text())
        except FormatError as error:
            tap.fail(f"{file.stem} can be read", error)
            continue
        for case in cases:
            run_case(case, paths, tap, f"{file.stem}: {case.name}")
    tap.done()


main()
