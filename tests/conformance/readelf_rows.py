# SPDX-License-Identifier: Apache-2.0
"""The symbol tables of a file as GNU readelf prints them."""

import re
import subprocess
from dataclasses import dataclass

TABLE = re.compile(r"Symbol table '\.(dynsym|symtab)' contains (\d+)")
# Num: Value Size Type Bind Vis [other] Ndx Name; st_other in brackets on some machines.
ROW = re.compile(r"\s*\d+:\s+([0-9a-f]+)\s+(\S+)\s+(\S+|<[^>]*>: \d+)\s+(\S+|<[^>]*>: \d+)\s+[A-Z]+"
                 r"\s+(?:\[[^]]*\]\s+)?(\S+)(?: (.*))?$")


@dataclass(frozen=True)
class Row:
    table: str
    name: str
    version: str | None
    default: bool | None  # None without a version
    value: int
    size: int
    type: str
    bind: str
    section: str  # a number, UND, ABS, COM

    @property
    def written(self):
        """As a person asks for it: the version, if any, is part of it."""
        return f"{self.name}@{self.version}" if self.version else self.name


def split(text):
    """name@VERSION is a hidden version, name@@VERSION the default one."""
    at = text.find("@", 1)
    if at < 0:
        return text, None, None
    default = text[at:].startswith("@@")
    return text[:at], text[at + (2 if default else 1):], default


def rows_of(path):
    command = ["readelf", "-W", "-s", str(path)]
    text = subprocess.run(command, capture_output=True, timeout=300, check=True).stdout
    rows, table, planned = [], None, {}
    seen = dict.fromkeys(("dynsym", "symtab"), 0)
    for line in text.decode("utf-8", "replace").splitlines():
        if heading := TABLE.match(line):
            table = heading[1]
            planned[table] = int(heading[2])
        elif row := ROW.match(line):
            seen[table] += 1
            name, version, default = split(row[6] or "")
            rows.append(Row(table, name, version, default, int(row[1], 16), int(row[2], 0),
                            row[3], row[4], row[5]))
    for name, count in planned.items():
        if seen[name] != count:  # a line this module does not understand
            raise ValueError(f"readelf announces {count} rows of {name}, {seen[name]} were read")
    return rows
