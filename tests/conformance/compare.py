# SPDX-License-Identifier: Apache-2.0
"""Compares uprobectl's results for one file with an Expectation."""

import json
import subprocess
from collections import defaultdict

from expectation import Listed

SAMPLE = 300  # names asked for per file, spread evenly over all
AT_ONCE = 2000  # names in one call
MOST_SHOWN = 20


def records(program, *arguments):
    result = subprocess.run([program, *arguments], capture_output=True, timeout=300)
    return [json.loads(line) for line in result.stdout.splitlines()]


def number(text):
    return int(text, 16)


def shown(problems):
    more = len(problems) - MOST_SHOWN
    return problems[:MOST_SHOWN] + ([f"... and {more} more"] if more > 0 else [])


def list_problems(program, target, expectation, base=0):
    """base: where the ELF image begins in its file."""
    problems, missing = [], dict(expectation.symbols)
    for r in records(program, "list-symbols", "--json", target):
        if r["table"] not in ("dynsym", "symtab"):
            continue  # from a debug package that this machine has: not what readelf reads here
        row = Listed(r["symbol"], r["version"], r["default_version"], number(r["address"]),
                     number(r["image_offset"]), r["size"], r["bind"], r["kind"], r["table"])
        allowed = missing.pop((row.name, row.address, row.version), None)
        if allowed is None:
            problems.append(f"readelf has no such row, or it was listed before: {row}")
        elif row not in allowed:
            problems.append(f"readelf: {allowed[0]}\n  listed: {row}")
        elif number(r["offset"]) != row.offset + base:
            problems.append(f"{row.name}: offset {r['offset']}, expected {row.offset + base:#x}")
    problems += [f"not listed: {rows[0]}" for rows in missing.values()]
    return shown(problems)


class Answers:
    """What `resolve` must say to a name: the contract's order of preference, over the rows."""

    ORDER = ["global", "weak", "local"]

    def __init__(self, expectation):
        self.by_name = defaultdict(list)
        for row in expectation.rows():
            self.by_name[row.name].append(row)

    def rows_for(self, request):
        """The rows a request may be answered with: one address, or several if it is ambiguous."""
        name, at, version = request.partition("@")
        rows = self.by_name[name]
        for table in ("dynsym", "symtab"):
            found = [r for r in rows if r.table == table and (not at or r.version == version)]
            if not at and any(r.default is not False for r in found):
                found = [r for r in found if r.default is not False]
            if found:
                best = min(self.ORDER.index(r.bind) for r in found)
                return [r for r in found if self.ORDER.index(r.bind) == best]
        return []

    def requests(self, every):
        """`name@version` of every row and the bare names; a sample of them, or all of .dynsym too."""
        names, dynamic = set(), set()
        for rows in self.by_name.values():
            for row in rows:
                written = {row.name, f"{row.name}@{row.version}" if row.version else row.name}
                names |= written
                if row.table == "dynsym":
                    dynamic |= written
        ordered = sorted(names)
        sample = {ordered[i * len(ordered) // SAMPLE] for i in range(SAMPLE)} if ordered else set()
        return sorted(sample | dynamic) if every else sorted(sample)


def answer_problem(request, answers, allowed, base):
    addresses = {row.address for row in allowed}
    if len(addresses) > 1:
        codes = [a.get("code") for a in answers]
        return None if codes == ["ambiguous"] else f"{request}: {len(addresses)} addresses, got {answers}"
    if len(answers) != 1 or answers[0]["type"] != "match":
        return f"{request}: expected {allowed[0].offset + base:#x}, got {answers}"
    a = answers[0]
    row = (a["symbol"], a["version"], a["default_version"], number(a["address"]),
           number(a["image_offset"]), a["size"], a["kind"], a["table"])
    expected = [(r.name, r.version, r.default, r.address, r.offset, r.size, r.kind, r.table)
                for r in allowed]
    if row not in expected or number(a["offset"]) != row[4] + base:
        return f"{request}: expected {expected[0]}, got {row} at {a['offset']}"
    return None


def resolve_problems(program, target, expectation, every, base=0):
    """Problems, and how many names were asked for."""
    answers = Answers(expectation)
    requests = answers.requests(every)
    given = defaultdict(list)
    for begin in range(0, len(requests), AT_ONCE):
        part = requests[begin:begin + AT_ONCE]
        for record in records(program, "resolve", "--json", target, "--", *part):
            given[record["request"]].append(record)
    problems = [answer_problem(request, given[request], answers.rows_for(request), base)
                for request in requests]
    return shown([p for p in problems if p]), len(requests)
