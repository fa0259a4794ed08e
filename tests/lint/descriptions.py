#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the descriptions of records (src/output/descriptions.hpp) with the JSON Schema and with the table of
docs/json-output.md: a record has the described keys, in their order, and those are required that JSON
always has. The numbers of the fields of a description ascend, as readers of saved runs expect. Prints TAP.

    descriptions.py SOURCE_ROOT            compare
    descriptions.py --write [SOURCE_ROOT]  put the keys into the schema and the table

A key that the schema has not yet gets its type from the member of the record. The definition of a computed
key has to be added to the schema first.
"""

import json
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap

DESCRIBE = re.compile(r"^void (describe\w*)\(auto& \S+ (?:(?:output::)?Described<(?:[a-z]+::)?([\w:]+)>|(\w+(?:<[\w:]+>)?))?(?:.*?) \{(.*?)\}$",
                      re.MULTILINE | re.DOTALL)
# A member or a computed key, the keys of a part, and another description of the same record.
USE = re.compile(r"\bio(?:\.(always|null_unless|optional|key|key_if|saved))?\("
                 r"(?:[^\";]*?, )??(?:(\d+), )?\"(\w+)\",\s*([^;]*?)\)?;"
                 r"|\bio\.(keys_of|keys_or_nulls)\(([\w.]+)\)"
                 r"|\b(describe_\w+)\(io\b")
PARTS = {"jump": "ClockJump", "source": "SourceLine", "task": "TaskProbeNote"}
NAMED = re.compile(r"\bNamed<(?:\w+::)?(\w+)>\{\"(\w+)\"\}")
TAKE = re.compile(r"^  void take\(const (?:\w+::)?(\w+)& (\w+)\) \{(.*?)\}$", re.MULTILINE | re.DOTALL)
WRITTEN = re.compile(r"write_described\(\"(\w+)\", ([^;]*)\);")
# Records that the formatter writes in another way, and definitions of parts.
OTHERS = {"event": [["Event"]], "span": [["describe_span"]], "wait": [["describe_wait"]], "inlined_into": [["InlinedInto"]], "clock_readings": [["ClockReading"]], "longest_wait": [["CallWait"]],
          "verified_library": [["LibraryVerdict"]], "point_details": [["PointDetails"]],
          "detail_parameter": [["DetailParameter"]], "detail_member": [["RecordedMember"]]}

TYPES = {"bool": "boolean", "std::string": "text", "std::string_view": "text", "FileOffset": "hex",
         "ImageOffset": "hex", "VirtualAddress": "hex", "values::Value": "value"} | {
             name: "number" for name in ("std::uint64_t", "std::uint32_t", "std::uint16_t", "std::size_t")}


class Use:
    """What a description says of a key, of a field, or of both."""

    def __init__(self, how, number, name, value):
        self.number = int(number) if number else None
        self.is_field = how not in ("key", "key_if")
        self.name, self.value = name, value
        self.is_key = how != "saved"
        self.is_optional = how in ("optional", "key_if")
        self.may_be_null = how == "null_unless"


class Descriptions:
    def __init__(self, text):
        self.bodies = {}
        for match in DESCRIBE.finditer(text):
            name, record, concept, body = match.groups()
            self.bodies[(record or concept) if name == "describe" else name] = body
        uses = sum(len(USE.findall(body)) for body in self.bodies.values())
        calls = len(re.findall(r"\bio[.(]|\bdescribe_\w+\(io\b", text))
        self.unread = calls - uses

    def uses(self, name):
        for how, number, key, value, part, whole, other in USE.findall(self.bodies[name]):
            if other:
                yield from self.uses(other)
            elif part:
                for use in self.uses(PARTS[re.split(r"\W+", whole)[-1]]):
                    if use.is_key:
                        use.is_field = False
                        use.is_optional |= part == "keys_of"
                        yield use
            else:
                yield Use(how, number, key, value)

    def keys(self, names):
        return [use for name in names for use in self.uses(name) if use.is_key]

    def problems(self):
        if self.unread:
            yield f"{self.unread} uses of io are not written as this check reads them"
        for record in self.bodies:
            uses = list(self.uses(record))
            numbers = [use.number for use in uses if use.is_field]
            if None in numbers or 0 in numbers or numbers != sorted(set(numbers)):
                yield f"{record}: the numbers of its fields do not ascend: {numbers}"
            for names in ([use.name for use in uses if use.is_key], [use.name for use in uses if use.is_field]):
                if len(set(names)) < len(names):
                    yield f"{record}: two keys or two fields have one name: {names}"


def written_records(formatter):
    """{type in JSON: [the types that describe it, of each way to write it]}"""
    written = {name: list(ways) for name, ways in OTHERS.items()}
    for record, name in NAMED.findall(formatter):
        written.setdefault(name, []).append([record])
    for record, parameter, body in TAKE.findall(formatter):
        types = {parameter: record} | {name: kind for kind, name in re.findall(r"const (?:\w+::)?(\w+)& (\w+) =", body)}
        for name, arguments in WRITTEN.findall(body):
            ways = re.sub(r"(\w+)\{[^}]*\}", r"\1", arguments).split(", ")
            written.setdefault(name, []).append([types.get(way, way) for way in ways])
    return written


def described_keys(descriptions, ways):
    """{key: (what is said of it, the record that has it, whether JSON always has it)} of all ways, in order"""
    keys = {}
    for way in ways:
        for use in descriptions.keys(way):
            keys.setdefault(use.name, (use, way[0]))
    always = [{use.name for use in descriptions.keys(way) if not use.is_optional} for way in ways]
    return {name: (use, record, all(name in each for each in always)) for name, (use, record) in keys.items()}


def type_of(use, record, headers):
    """The schema of a member, from its declaration. None if the key is not a member."""
    member = re.fullmatch(r"\w+\.(\w+)", use.value)
    struct = member and re.search(rf"^struct {record}\b[^;{{]*\{{(.*?)^\}};", headers, re.MULTILINE | re.DOTALL)
    declared = struct and re.search(rf"^  ([\w:<>]+) {member[1]}\b", struct[1], re.MULTILINE)
    if not declared:
        return None
    inner = re.fullmatch(r"std::optional<(.*)>", declared[1])
    name = TYPES.get(inner[1] if inner else declared[1])
    if name == "number" and use.name.endswith("_ns"):
        name = "nanoseconds"
    is_plain = not inner and not use.may_be_null or use.is_optional or name == "value"
    if name == "boolean" and is_plain:
        return {"type": "boolean"}
    return name and {"$ref": f"#/$defs/{name}" + ("" if is_plain else "_or_null")}


def required_keys(keys, properties):
    return ["type"] * ("type" in properties) + [key for key, (_, _, is_there) in keys.items() if is_there]


def definition_problems(name, keys, definition):
    properties = [key for key in definition["properties"] if key != "type"]
    if properties != list(keys):
        yield f"{name}: the schema has other keys: {properties}, not {list(keys)}"
    required = required_keys(keys, definition["properties"])
    if definition["required"] != required:
        yield f"{name}: the schema requires other keys: {definition['required']}, not {required}"


def wrapped(names, indent, width=100):
    lines = [indent]
    for number, name in enumerate(names):
        text = json.dumps(name) + ("," if number + 1 < len(names) else "")
        if len(lines[-1]) + len(text) + 1 > width:
            lines.append(indent)
        lines[-1] += text if lines[-1] == indent else " " + text
    return "\n".join(lines)


def with_keys(schema, name, keys, headers):
    """The text of the schema with the keys of a record."""
    begin = schema.index(f'\n    "{name}": {{')
    end = schema.index("\n    }", begin)
    text = schema[begin:end]
    split = re.compile(r'(      "properties": \{\n)(.*?)(\n      \})', re.DOTALL)
    known = dict(re.findall(r'^        "(\w+)": (.*?),?(?=\n        "|\Z)', split.search(text)[2],
                            re.MULTILINE | re.DOTALL))
    made = {key: known[key] for key in ("type",) if key in known}
    for key, (use, record, _) in keys.items():
        made[key] = known.get(key) or json.dumps(type_of(use, record, headers))
        if made[key] == "null":
            raise SystemExit(f"{name}: add the definition of \"{key}\" to the schema: it is not a member of {record}")
    lines = ",\n".join(f'        "{key}": {value}' for key, value in made.items())
    text = split.sub(lambda match: match[1] + lines + match[3], text)
    required = required_keys(keys, known)
    one_line = f'      "required": {json.dumps(required)}'
    if len(one_line) > 99:
        one_line = '      "required": [\n' + wrapped(required, " " * 8) + "\n      ]"
    text = re.sub(r'      "required": \[[^\]]*\]', lambda _: one_line, text)
    return schema[:begin] + text + schema[end:]


def row_of(name, page):
    return re.search(rf"^(\| `{name}` \|[^|]*\| `)([\w ]*)(` \|)$", page, re.MULTILINE)


SCHEMA = {"$defs": {"lost": {"required": ["type", "count", "reason"],
                             "properties": {"type": {}, "count": {}, "reason": {}, "source": {}, "line": {}}}}}
FORMATTER = 'constexpr std::tuple record_names = {Named<Lost>{"lost"}};\n'
SOUND = ('void describe_reason(auto& io, const Reason* why) {\n  io.key("reason", [&] { return f(why); });\n}\n'
         'void describe(auto& io, Described<SourceLine> auto& source) {\n  io(1, "source", source.file);\n'
         '  io.null_unless(is_known(source), 3, "line", source.line);\n}\n'
         'void describe(auto& io, Described<Lost> auto& record) {\n  io(1, "count", record.count);\n'
         '  describe_reason(io, record.why);\n  io.always(4, "why", record.reason);\n  io.keys_of(record.source);\n}\n'
         'void describe(auto& /*io*/, Described<a::None> auto& /*none*/) {}\n').replace("io.always(4", "io.saved(4")
HEADERS = "struct Lost {\n  std::uint64_t count = 0; // of hits\n  std::optional<bool> late;\n};\n"


def problems(text, formatter, schema):
    descriptions = Descriptions(text)
    yield from descriptions.problems()
    for name, ways in written_records(formatter).items():
        if name in schema["$defs"]:
            yield from definition_problems(name, described_keys(descriptions, ways), schema["$defs"][name])


def test_itself(tap):
    changes = (('(4', '(1'), ('"reason"', '"why"'), ('"why"', '"count"'), ("(4, ", "(number, "),
               ('io.key("reason"', 'io.key_if(b, "reason"'), ("  describe_reason(io, record.why);\n", ""),
               ("io.keys_of(", "io.keys_or_nulls("), ('"line"', '"row"'), ("io(1, \"count\"", "io.saved(1, \"count\""))
    broken = [SOUND.replace(*change) for change in changes]
    tap.check("this check finds what it looks for",
              [text for text in broken if not list(problems(text, FORMATTER, SCHEMA))])
    tap.check("this check finds nothing else", list(problems(SOUND, FORMATTER, SCHEMA)))
    made = [type_of(Use(how, "1", name, f"record.{name}"), "Lost", HEADERS)
            for how, name in (("", "count"), ("null_unless", "count"), ("", "late"), ("optional", "late"),
                              ("", "gone"))]
    expected = [{"$ref": "#/$defs/number"}, {"$ref": "#/$defs/number_or_null"}, {"$ref": "#/$defs/boolean_or_null"},
                {"type": "boolean"}, None]
    tap.check("the type of a key is that of the member", [] if made == expected else made)


def code_of(path):
    # The comments show calls, too.
    return re.sub(r"^ *//.*\n", "", path.read_text(), flags=re.MULTILINE)


def main():
    words = [word for word in sys.argv[1:] if word != "--write"]
    root = Path(words[0] if words else ".")
    schema_file, page_file = root / "share/uprobectl/records.schema.json", root / "docs/json-output.md"
    descriptions = Descriptions(code_of(root / "src/output/descriptions.hpp"))
    formatter = "".join((root / "src/output" / name).read_text() for name in ("record_types.hpp", "json_formatter.cpp"))
    records = {name: described_keys(descriptions, ways) for name, ways in written_records(formatter).items()}
    if "--write" in sys.argv:
        headers = "".join(file.read_text() for folder in ("src", "include")
                          for file in sorted((root / folder).rglob("*.hpp")))
        schema, page = schema_file.read_text(), page_file.read_text()
        for name, keys in records.items():
            schema = with_keys(schema, name, keys, headers)
            if row := row_of(name, page):
                page = page.replace(row[0], row[1] + " ".join(keys) + row[3])
        schema_file.write_text(schema)
        page_file.write_text(page)
        return
    tap = Tap()
    test_itself(tap)
    schema, page = json.loads(schema_file.read_text()), page_file.read_text()
    tap.check("descriptions of records are sound", list(descriptions.problems()))
    tap.check("saved records are described soundly",
              list(Descriptions(code_of(root / "src/saved/descriptions.hpp")).problems()))
    stale = [problem for name, keys in records.items()
             for problem in definition_problems(name, keys, schema["$defs"][name])]
    stale += [f"{name}: docs/json-output.md has other keys" for name, keys in records.items()
              if (row := row_of(name, page)) and row[2].split() != list(keys)]
    if stale:
        stale.append("run: python3 tests/lint/descriptions.py --write")
    tap.check("keys of the schema and of docs/json-output.md are those of the descriptions", stale)
    tap.done()


if __name__ == "__main__":
    main()
