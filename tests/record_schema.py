# SPDX-License-Identifier: Apache-2.0
"""Validates JSON Lines against share/uprobectl/records.schema.json.

The schema accepts keys that it does not know, since later versions add some. Here it is closed: a
record of ours with a key that the schema lacks is a fault.
"""

import json
import re
import sys
from pathlib import Path

SCHEMA = Path(__file__).resolve().parent.parent / "share/uprobectl/records.schema.json"
# Where Debian installs python3-jsonschema: the first python3 in PATH may be another.
DEBIAN_PACKAGES = "/usr/lib/python3/dist-packages"
NUMBERS = re.compile(r'"0x[0-9a-f]+"|(?<=[:,\[])[0-9]+(?=[,\]}])')


def draft_2020_12():
    try:
        from jsonschema import Draft202012Validator
    except ImportError:
        sys.path.append(DEBIAN_PACKAGES)
        from jsonschema import Draft202012Validator
    return Draft202012Validator


def closed(definition, definitions):
    """The definition with its references replaced and unknown keys refused."""
    if isinstance(definition, list):
        return [closed(each, definitions) for each in definition]
    if not isinstance(definition, dict):
        return definition
    if reference := definition.get("$ref"):
        return closed(definitions[reference.removeprefix("#/$defs/")], definitions)
    result = {key: closed(value, definitions) for key, value in definition.items()}
    if isinstance(definition.get("required"), list):
        result["additionalProperties"] = False
    return result


class RecordSchema:
    def __init__(self, path=SCHEMA):
        self.schema = json.loads(Path(path).read_text())
        definitions = self.schema["$defs"]
        self.types = [each["$ref"].removeprefix("#/$defs/") for each in self.schema["oneOf"]]
        validator = draft_2020_12()
        self.validators = {name: validator(closed(definitions[name], definitions))
                           for name in self.types}
        self.seen = set()

    def problem(self, line):
        """What is wrong with a record, or None."""
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            return f"not JSON: {error}"
        name = record.get("type") if isinstance(record, dict) else None
        if name and not isinstance(record.pop("device", ""), str):  # any record of --adb may have it
            return f"{name}/device is not a text"
        if name not in self.validators:
            return f"the schema has no record of type {name!r}"
        for error in self.validators[name].iter_errors(record):
            where = "/".join(map(str, error.absolute_path))
            return f"{name}{where and '/' + where}: {error.message[:300]}"
        return None

    def problems(self, lines, most=5):
        """Those of JSON Lines. Of lines that differ in numbers only one is validated."""
        found = []
        for line in lines:
            shape = NUMBERS.sub("0", line)
            if not line or shape in self.seen:
                continue
            if problem := self.problem(line):
                found.append(f"not as records.schema.json has it: {problem}: {line[:300]}")
                if len(found) == most:
                    break
            else:
                self.seen.add(shape)
        return found


def main():
    """Usage: record_schema.py FILE TYPE…: JSON Lines, with a record of each of these types."""
    schema = RecordSchema()
    lines = [line for line in Path(sys.argv[1]).read_text(errors="replace").split("\n") if line]
    found = schema.problems(lines)
    there = {name for name in schema.types if any(f'"type":"{name}"' in line for line in lines)}
    found += [f"no record of type {name}" for name in sys.argv[2:] if name not in there]
    if found:
        sys.exit("\n".join(found))


if __name__ == "__main__":
    main()
