#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every function of the corpus' APK: the offset in the archive that `uprobectl resolve` gives against
the golden file, which GNU readelf and Python's zipfile made. Usage: corpus_offsets.py UPROBECTL;
prints TAP, one case per entry of the archive."""

import csv
import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap


def rows_by_entry(golden):
    """{entry: {name: set of offsets in the archive}}"""
    result = defaultdict(lambda: defaultdict(set))
    with open(golden, newline="", encoding="utf-8") as file:
        reader = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        columns = [name.lstrip("#") for name in next(reader)]
        for row in reader:
            fields = dict(zip(columns, row))
            result[fields["entry"]][fields["name"]].add(int(fields["offset_in_archive"], 16))
    return result


def answers(program, target, names):
    """{name: (offset, None) or (None, error code)}"""
    run = subprocess.run([program, "resolve", "--json", target, "--", *names],
                         capture_output=True, text=True, timeout=120, check=False)
    result = {}
    for line in run.stdout.splitlines():
        record = json.loads(line)
        if record["type"] == "match":
            result[record["request"]] = (int(record["offset"], 16), None)
        else:
            result[record["request"]] = (None, record["code"])
    return result


def problems(names, given):
    for name, offsets in sorted(names.items()):
        offset, code = given.get(name, (None, "no answer"))
        # A name that several addresses share is decided by binding, or said to be ambiguous.
        if offset in offsets or (len(offsets) > 1 and code == "ambiguous"):
            continue
        expected = ", ".join(map(hex, sorted(offsets)))
        yield f"{name}: expected {expected}, got {code if offset is None else hex(offset)}"


def main(program):
    tap = Tap()
    corpus = os.environ.get("UPROBECTL_CORPUS")
    if not corpus:
        tap.skip("offsets of the corpus", "UPROBECTL_CORPUS is not set")
        tap.done()
        return
    apk = f"{corpus}/apk/stored-4-abis.apk"
    entries = rows_by_entry(f"{corpus}/golden/stored-4-abis.apk.tsv")
    rows = 0
    for entry, names in sorted(entries.items()):
        rows += sum(len(offsets) for offsets in names.values())
        given = answers(program, f"{apk}!/{entry}", sorted(names))
        tap.check(f"{len(names)} names of {entry} are at their golden offsets",
                  list(problems(names, given)))
    tap.check("the golden file was read whole", [] if rows >= 1000 else [f"only {rows} offsets"])
    tap.done()


main(sys.argv[1])
