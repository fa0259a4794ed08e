# SPDX-License-Identifier: Apache-2.0
"""What must be listed for a file, from readelf's rows; and what deliberately is not, counted."""

import re
from collections import Counter, defaultdict
from dataclasses import dataclass

from segments import EM_AARCH64, EM_ARM, EM_RISCV

# Every difference between readelf's rows and our list that is meant. The key is the row's fate.
EXCEPTIONS = {
    "mapping": "ARM, AArch64 and RISC-V mapping symbols ($a, $d, $t, $x) mark code, they name nothing",
    ".L": "NOTYPE names that begin with .L are the compiler's own",
    "absolute": "SHN_ABS: a plain number, not an address",
    "no bytes": "outside the file bytes of every executable segment: no breakpoint can be written",
    "data section": "NOTYPE in .symtab, in a section without code that shares a segment with some",
    "repeated": "same name, address and version as a row that is listed (.dynsym before .symtab)",
    "unversioned": "the .symtab row of a .dynsym symbol whose version the linker left out",
}
# NOTYPE rows with bytes in an executable segment are listed, as labels: counted, for the table.
LABELS = "listed as labels: NOTYPE names in executable segments"
KINDS = {"FUNC": "function", "IFUNC": "ifunc", "NOTYPE": "label"}
BINDINGS = {"LOCAL": "local", "GLOBAL": "global", "WEAK": "weak", "UNIQUE": "global"}
MAPPING_MACHINES = {EM_ARM, EM_AARCH64, EM_RISCV}


@dataclass(frozen=True)
class Listed:
    """The fields of a `symbol` record that are compared."""
    name: str
    version: str | None
    default: bool | None
    address: int
    offset: int
    size: int
    bind: str
    kind: str
    table: str


def is_mapping(row, machine):
    pattern = r"\$[adtx]" if machine == EM_RISCV else r"\$[adtx](\.|$)"
    return machine in MAPPING_MACHINES and row.type == "NOTYPE" and re.match(pattern, row.name)


def listed(row, segments):
    """The record for one row, or the name of the exception that it falls under."""
    if is_mapping(row, segments.machine):
        return "mapping"
    if row.section == "ABS":
        return "absolute"
    if row.type == "NOTYPE" and row.name.startswith(".L"):
        return ".L"
    if (row.type == "NOTYPE" and row.table == "symtab" and segments.is_data_section(row.section)
            and segments.executable_offset(row.value) is not None):
        return "data section"
    # Bit 0 of a Thumb function's value is not part of its address (ELF for the Arm Architecture, 5.5.3).
    thumb = segments.machine == EM_ARM and row.type in {"FUNC", "IFUNC"}
    address = row.value & ~1 if thumb else row.value
    offset = segments.executable_offset(address)
    if offset is None:
        return "no bytes"
    return Listed(row.name, row.version, row.default, address, offset, row.size,
                  BINDINGS.get(row.bind, row.bind), KINDS[row.type], row.table)


class Expectation:
    def __init__(self, rows, segments):
        self.counts = Counter()
        # (name, address, version) -> what may stand there: rows of the table that goes first.
        self.symbols = defaultdict(list)
        candidates = []
        for row in rows:
            if row.type not in KINDS or row.section in {"UND", "COM"} or not row.name:
                continue
            fate = listed(row, segments)
            if isinstance(fate, str):
                # Labels for which there is no code are data and linker marks: nothing is missing.
                if fate != "no bytes" or row.type != "NOTYPE":
                    self.counts[fate] += 1
            else:
                candidates.append(fate)
        self._merge(candidates)
        self.counts[LABELS] = sum(1 for rows in self.symbols.values() if rows[0].kind == "label")

    def _merge(self, candidates):
        versioned = {(c.name, c.address) for c in candidates if c.table == "dynsym"}
        for candidate in sorted(candidates, key=lambda c: c.table):  # dynsym, symtab
            key = (candidate.name, candidate.address, candidate.version)
            if key in self.symbols:
                self.counts["repeated"] += 1
                if self.symbols[key][0].table == candidate.table:
                    self.symbols[key].append(candidate)
            elif candidate.table == "symtab" and not candidate.version and key[:2] in versioned:
                self.counts["unversioned"] += 1
            else:
                self.symbols[key].append(candidate)

    def rows(self):
        """All that may be listed."""
        return [row for rows in self.symbols.values() for row in rows]
