# SPDX-License-Identifier: Apache-2.0
"""The static probes of a file as GNU readelf prints their notes, and uprobectl's list against them."""

import re
import subprocess
from collections import Counter
from dataclasses import dataclass

from segments import EM_ARM

# readelf -n: four lines a note, indented by four blanks.
NOTE = re.compile(r"    Provider: (.*)\n    Name: (.*)\n    Location: (0x[0-9a-f]+), "
                  r"Base: (0x[0-9a-f]+), Semaphore: (0x[0-9a-f]+)\n    Arguments: (.*)\n")
MOST_SHOWN = 20


@dataclass(frozen=True)
class Point:
    provider: str
    name: str
    address: int
    offset: int
    semaphore: int | None  # its address
    semaphore_offset: int | None
    arguments: str


def expected_probes(path, segments):
    """Those that are in the file's code, in the order of the notes."""
    text = subprocess.run(["readelf", "-W", "-n", str(path)], capture_output=True, timeout=300,
                          check=True).stdout.decode()
    notes = NOTE.findall(text)
    announced = len(re.findall(r"^  stapsdt ", text, re.M))
    if len(notes) != announced:  # a note this module does not understand
        raise ValueError(f"readelf has {announced} notes, {len(notes)} were read")
    base_now = segments.section_addresses.get(".stapsdt.base")
    probes = []
    for provider, name, location, base, semaphore, arguments in notes:
        location, base, semaphore = (int(number, 16) for number in (location, base, semaphore))
        moved = base_now - base if base_now is not None and base else 0
        address = (location + moved) & segments.word_mask
        if segments.machine == EM_ARM:
            address &= ~1
        offset = segments.executable_offset(address) if location else None
        if offset is None:
            continue
        counter = (semaphore + moved) & segments.word_mask if semaphore else None
        probes.append(Point(provider, name, address, offset, counter,
                            None if counter is None else segments.offset(counter), arguments))
    return probes


def number(text):
    return None if text is None else int(text, 16)


def static_problems(records, expected):
    listed = [Point(r["provider"], r["name"], number(r["address"]), number(r["offset"]),
                    number(r["semaphore_address"]), number(r["semaphore_offset"]), r["raw_arguments"])
              for r in records if r["type"] == "usdt"]
    problems = [f"expected {wanted}\n  listed {got}"
                for wanted, got in zip(expected, listed) if wanted != got]
    if len(listed) != len(expected):
        problems.append(f"{len(expected)} points expected, {len(listed)} listed")
    for r in records:
        texts = " ".join(argument["raw"] for argument in r.get("arguments", []))
        if texts != " ".join(r.get("raw_arguments", "").split()):
            problems.append(f"the arguments '{r['raw_arguments']}' were taken apart as '{texts}'")
    return problems[:MOST_SHOWN]


def arguments_left(title, records):
    """How many arguments were not understood or are out of reach, by what is said of them."""
    left = Counter()
    for r in records:
        for argument in r.get("arguments", []):
            if argument["kind"] in ("unparsed", "out_of_reach"):
                left[title, argument["problem"]] += 1
    return left
