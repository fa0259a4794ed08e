# SPDX-License-Identifier: Apache-2.0
"""Compares what a command printed with what a case expects. See run_cli_tests.py."""

import difflib
import json
import re

HOLE = re.compile(r"\{\{(.*?)\}\}")
ESCAPE = re.compile(r"\\([t\\])")
ANY_LINES = "..."


def fill(text, paths):
    """{tmp} and its like replaced; other braces (JSON has many) stay."""
    return re.sub(r"\{(" + "|".join(paths) + r")\}", lambda m: paths[m[1]], text)


def pattern_of(text, paths, escapes=True):
    """A regular expression for one expected line or value: {{regex}} holes, the rest literal."""
    pattern, position = "", 0
    for hole in [*HOLE.finditer(text), None]:
        literal = fill(text[position:hole.start() if hole else len(text)], paths)
        if escapes:
            literal = ESCAPE.sub(lambda m: "\t" if m[1] == "t" else "\\", literal)
        pattern += re.escape(literal)
        if hole:
            pattern += f"(?:{hole[1]})"
            position = hole.end()
    return re.compile(pattern, re.DOTALL)


def lines_match(expected, found, matches):
    """Whether the lines correspond, where ANY_LINES stands for any number of them."""
    # reachable: how many found lines the expected ones so far can account for
    reachable = {0}
    for line in expected:
        if line == ANY_LINES:
            reachable = set(range(min(reachable), len(found) + 1)) if reachable else set()
        else:
            reachable = {i + 1 for i in reachable if i < len(found) and matches(line, found[i])}
    return len(found) in reachable


def text_problem(what, expected, found, paths):
    """What is wrong with a printed text, or None. expected: lines, or None for anything."""
    if expected is None:
        return None
    lines = found.splitlines()
    if found and not found.endswith("\n"):
        return f"{what} does not end with a newline: ...{found[-200:]!r}"
    if lines_match(expected, lines, lambda e, f: pattern_of(e, paths).fullmatch(f)):
        return None
    filled = [fill(e, paths) for e in expected]
    shown = [line.replace("\\", "\\\\").replace("\t", "\\t") for line in lines]
    diff = difflib.unified_diff(filled, shown, f"expected {what}", f"found {what}", lineterm="", n=2)
    return "\n".join(diff)


def value_matches(expected, found, paths):
    if isinstance(expected, str) and isinstance(found, str):
        return bool(pattern_of(expected, paths, escapes=False).fullmatch(found))
    if isinstance(expected, dict) and isinstance(found, dict):
        return all(k in found and value_matches(v, found[k], paths) for k, v in expected.items())
    if isinstance(expected, list) and isinstance(found, list):
        return len(expected) == len(found) and all(
            value_matches(e, f, paths) for e, f in zip(expected, found))
    return type(expected) is type(found) and expected == found


def json_problem(expected, found, paths):
    """What is wrong with JSON Lines, or None: each expected record names the keys it looks at."""
    records = []
    for line in found.splitlines():
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            return f"stdout has a line that is not JSON: {line[:300]} ({error})"
        if not isinstance(record, dict) or "type" not in record:
            return f"stdout has a line that is no record with a type: {line[:300]}"
        records.append(record)
    wanted = [line if line == ANY_LINES else json.loads(line) for line in expected]
    if lines_match(wanted, records, lambda e, f: value_matches(e, f, paths)):
        return None
    return "\n".join(["expected records:", *expected, "found records:", *found.splitlines()[:40]])
