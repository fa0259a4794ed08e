#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the descriptions of records with share/uprobectl/records.schema.json: a record that JSON writes
by its description has the keys of the schema, in its order. The numbers of the fields of a description
ascend, as readers of saved runs expect. Prints TAP.

    descriptions.py SOURCE_ROOT
"""

import json
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap

DESCRIBE = re.compile(r"^void describe\(auto& \S+ (?:Described<([\w:]+)>|(\w+)) auto& [^)]*\) \{(.*?)\}$", re.MULTILINE | re.DOTALL)
FIELD = re.compile(r"\bio(?:\.always)?\((\d+), \"(\w+)\", [\w.]+\);")
WRITTEN = re.compile(r"void write\(const (\w+)& \w+\) override \{[^}]*?write_described\(\"(\w+)\"")


def fields_of(text):
    """{record: [(number, name)]}"""
    return {match[1] or match[2]: [(int(number), name) for number, name in FIELD.findall(match[3])]
            for match in DESCRIBE.finditer(text)}


def problems(descriptions, formatter, schema):
    described = fields_of(descriptions)
    if descriptions.count("io(") + descriptions.count("io.always(") != sum(map(len, described.values())):
        yield "some fields are not written as this check reads them"
    for record, fields in described.items():
        numbers = [number for number, _ in fields]
        if numbers != sorted(set(numbers)) or 0 in numbers:
            yield f"{record}: the numbers of its fields do not ascend: {numbers}"
        if len({name for _, name in fields}) < len(fields):
            yield f"{record}: two fields have one name"
    written = WRITTEN.findall(formatter)
    if len(written) != formatter.count("write_described(\""):
        yield "some records are not written as this check reads them"
    for record, name in written:
        keys = [key for key in schema["$defs"][name]["properties"] if key != "type"]
        if [key for _, key in described.get(record, [])] != keys:
            yield f"{record}: the schema has other keys for {name}: {keys}"


SCHEMA = {"$defs": {"lost": {"properties": {"type": {}, "count": {}, "reason": {}}}}}
FORMATTER = '  void write(const Lost& lost) override { write_described("lost", lost); }\n'
SOUND = ('void describe(auto& io, Described<Lost> auto& record) {\n  io(1, "count", record.count);\n'
         '  io.always(4, "reason", record.reason);\n}\nvoid describe(auto& /*io*/, Described<a::None> auto& /*none*/) {}\n')


def main():
    root = Path(sys.argv[1])
    tap = Tap()
    broken = [SOUND.replace(*change) for change in (
        ("4", "1"), ('"reason"', '"why"'), ('"reason"', '"count"'), ("record.count);", "f(x));"), ("(4, \"reason\"", "(4, 5, \"reason\""))]
    tap.check("this check finds what it looks for",
              [text for text in broken if not list(problems(text, FORMATTER, SCHEMA))])
    tap.check("this check finds nothing else", list(problems(SOUND, FORMATTER, SCHEMA)))
    texts = [(root / "src" / name).read_text()
             for name in ("output/descriptions.hpp", "saved/descriptions.hpp", "output/json_formatter.cpp")]
    schema = json.loads((root / "share/uprobectl/records.schema.json").read_text())
    for name, text in zip(("records that JSON has, too", "saved records"), texts[:2]):
        # The comments show calls, too.
        code = re.sub(r"^ *//.*\n", "", text, flags=re.MULTILINE)
        formatter = texts[2] if text is texts[0] else ""
        what = "keys are those of the schema, numbers ascend" if formatter else "numbers ascend"
        tap.check(f"{name}: {what}", list(problems(code, formatter, schema)))
    tap.done()


if __name__ == "__main__":
    main()
