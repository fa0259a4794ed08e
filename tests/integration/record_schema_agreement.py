#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The JSON Schema of records: it is one, it has the types and keys of docs/json-output.md, and it
refuses records in which a key is renamed, missing or of another type. Usage: record_schema_agreement.py
PAGE RECORDS; RECORDS: JSON Lines, one record of each type at least. Prints TAP."""

import copy
import json
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from record_schema import RecordSchema, draft_2020_12
from tap import Tap

# Any JSON is right there, or any name.
OPEN = {"value", "return_value", "end_return_value", "record", "key", "registers", "average"}
# Only with programs of users.
OF_OWN_PROGRAMS = {("match", "program"), ("match", "phase"), ("usdt", "program"), ("usdt", "phase"),
                   ("probe", "program")}
OPTIONAL = {"return_error", "return_errno", "failed", "truncated", "source", "line", "column", "inlined",
            "inlined_into", "approximate", "depth", "report", "report_line", "symbols_from", "details", "bit_offset",
            "bit_size", "on_cpu_ns", "waiting_ns", "self_on_cpu_ns", "preempted_ns", "slept_ns", "blocked_ns",
            "longest_wait"}
# A value that fits no type of keys except averages.
OF_NO_TYPE = 1.5


def documented_keys(page):
    """The types of the table and their keys."""
    rows = re.findall(r"^\| `(\w+)` \|[^|]*\| `([\w ]+)` \|$", page, re.M)
    return {name: set(keys.split()) for name, keys in rows}


def schema_keys(schema):
    return {name: set(schema.schema["$defs"][name]["properties"]) - {"type"} for name in schema.types}


def differences(documented, known):
    for name in sorted(documented.keys() | known.keys()):
        if name not in documented or name not in known:
            yield f"{name} is only in {'the schema' if name in known else 'the page'}"
        elif extra := documented[name] ^ known[name]:
            yield f"{name}: only one of the two has {' '.join(sorted(extra))}"


def version_problems(schema, page):
    version = schema["version"]
    if not schema["$id"].endswith(f":{version}"):
        yield f"$id is {schema['$id']}, version {version}"
    if f"`{schema['$id']}`" not in page:
        yield f"the page does not name {schema['$id']}"


def objects_of(value, path=()):
    """The paths of all objects in a record whose keys the schema lists."""
    if isinstance(value, dict):
        yield path
        for key, each in value.items():
            if key not in OPEN:
                yield from objects_of(each, (*path, key))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from objects_of(each, (*path, index))


def at(value, path):
    for step in path:
        value = value[step]
    return value


def mutants(record):
    """(what was done, the record with that done to one key)"""
    for path in objects_of(record):
        for key in at(record, path):
            name = "/".join(map(str, (*path, key)))
            renamed = copy.deepcopy(record)
            at(renamed, path)[key + "s"] = at(renamed, path).pop(key)
            yield f"{name} renamed", renamed
            if key not in OPTIONAL and (record["type"], key) not in OF_OWN_PROGRAMS:
                without = copy.deepcopy(record)
                del at(without, path)[key]
                yield f"{name} left out", without
            if key not in OPEN - {"registers"}:
                changed = copy.deepcopy(record)
                at(changed, path)[key] = OF_NO_TYPE
                yield f"{name} of another type", changed


def main():
    page, lines = (Path(name).read_text() for name in sys.argv[1:])
    records = [json.loads(line) for line in lines.splitlines()]
    schema = RecordSchema()
    validator = draft_2020_12()
    tap = Tap()
    validator.check_schema(schema.schema)
    tap.ok("it is a JSON Schema of the draft it names")
    tap.check("it has the types and keys of docs/json-output.md",
              list(differences(documented_keys(page), schema_keys(schema))))
    tap.check("the page names its version", list(version_problems(schema.schema, page)))
    tap.check("there is a record of each type",
              sorted(set(schema.types) - {record["type"] for record in records}))
    whole = validator(schema.schema)
    for record in records:
        name = f"{record['type']} {record['kind']}" if record["type"] == "event" else record["type"]
        tap.check(f"{name}: a record is valid", schema.problems([json.dumps(record)]))
        later = {**record, "key_of_a_later_version": 1}
        tap.check(f"{name}: as installed, the schema allows keys that it does not know",
                  [error.message for error in whole.iter_errors(later)])
        taken = [what for what, mutant in mutants(record) if not schema.problem(json.dumps(mutant))]
        tap.check(f"{name}: no key can be renamed, left out or of another type", taken)
    tap.done()


main()
