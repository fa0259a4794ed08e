# SPDX-License-Identifier: Apache-2.0
"""Published pairs of builds: what `diff` says of them, against readelf's rows of both. Libraries of Android are
packed into archives, in which Python's zipfile says where they lie."""

import subprocess
from collections import Counter, defaultdict

from android import data_offset
from compare import number, records, shown
from debian import Unavailable, run
from expectation import Expectation
from objects import Object
from readelf_rows import rows_of
from segments import Segments
from static_probes import expected_probes

# Packages with the program or library that is compared: the oldest and the newest version that the mirror has.
DEBIAN_PAIRS = [
    Object("libssl3", "amd64", "usr/lib/*/libssl.so.3", bounded=True),
    Object("libssl3", "arm64", "usr/lib/*/libssl.so.3"),
    Object("libc6", "amd64", "lib/*/libc.so.6", bounded=True),
    Object("libc6", "arm64", "lib/*/libc.so.6"),
    Object("python3.11-minimal", "amd64", "usr/bin/python3.11", bounded=True),
    Object("python3.11-minimal", "arm64", "usr/bin/python3.11"),
]
# npm's package, its older and its newer version.
ANDROID_PAIRS = [
    ("react-native", "0.68.0", "0.68.7"),
    ("hermes-engine", "0.10.0", "0.11.0"),
    ("jsc-android", "250230.2.1", "250231.0.0"),
    ("v8-android", "9.88.0", "9.93.0"),
]
CHANGES = ("gone", "new", "function_moved", "archive_moved")


def oldest_and_newest(packages, wanted):
    """The versions of a package that the mirror offers, by Debian's order."""
    listing = run(["apt-cache", "-c", str(packages.configuration(wanted)), "madison", wanted.package])
    versions = {line.split("|")[1].strip() for line in listing.splitlines() if "|" in line}

    def is_before(one, other):
        return subprocess.run(["dpkg", "--compare-versions", one, "lt", other]).returncode == 0
    oldest, newest = list(versions)[:1] * 2 if versions else ("", "")
    for version in versions:
        oldest = version if is_before(version, oldest) else oldest
        newest = version if is_before(newest, version) else newest
    if oldest == newest:
        raise Unavailable("the mirror has one version only")
    return oldest, newest


def is_cold(name):
    return ".cold" in name


class Functions:
    """The functions and static probes of a library: offsets by name, ascending."""

    def __init__(self, elf, base=0):
        segments = Segments(elf.read_bytes())
        self.base = base
        self.offsets = defaultdict(set)  # (name, version) -> offsets in the library
        self.tables = set()
        for row in Expectation(rows_of(elf), segments).rows():
            if not is_cold(row.name):
                self.offsets[row.name, row.version].add(row.offset)
                self.tables.add(row.table)
        self.probes = defaultdict(list)
        for probe in expected_probes(elf, segments):
            self.probes[f"{probe.provider}:{probe.name}", None].append(probe.offset)

    def named(self):
        """Both by name. Several offsets of a name are a list."""
        return {key: sorted(offsets) for key, offsets in (*self.offsets.items(), *self.probes.items())}


def expected_changes(old, new):
    """Each change: (name, version, change, offset before, offset after). The offsets of a name belong together in
    their order; those of static probes first by equal offset."""
    changes = Counter()
    before, after = old.named(), new.named()
    for key in before.keys() | after.keys():
        left, right = list(before.get(key, [])), list(after.get(key, []))
        pairs = []
        if key in old.probes:
            for offset in [o for o in left if o in right]:
                pairs.append((offset, offset))
                left.remove(offset)
                right.remove(offset)
        pairs += zip(left, right)
        for then, now in pairs:
            if then != now:
                changes[*key, "function_moved", then + old.base, now + new.base] += 1
            elif old.base != new.base:
                changes[*key, "archive_moved", then + old.base, now + new.base] += 1
        count = min(len(left), len(right))
        for offset in left[count:]:
            changes[*key, "gone", offset + old.base, None] += 1
        for offset in right[count:]:
            changes[*key, "new", None, offset + new.base] += 1
    return changes


def said_changes(found):
    return Counter((r["symbol"], r["version"], r["change"], r["recorded"] and number(r["recorded"]),
                    r["found"] and number(r["found"]))
                   for r in found if r["change"] in CHANGES)


def difference(expected, said):
    problems = [f"not said: {row}" for row in (expected - said).elements()]
    return problems + [f"said, but not so: {row}" for row in (said - expected).elements()]


def counts_of(changes):
    counts = Counter()
    for row, count in changes.items():
        counts[row[2]] += count
    return ", ".join(f"{counts[change]} {change}" for change in CHANGES if counts[change]) or "no change"


def drifts(program, old, new):
    found = records(program, "diff", "--json", str(old), str(new))
    if not any(record["type"] == "verify_summary" for record in found):
        raise AssertionError(f"diff has failed: {found}")
    return [record for record in found if record["type"] == "drift"]


def debian_pair(program, packages, wanted):
    """The title of the case and its problems."""
    versions = oldest_and_newest(packages, wanted)
    old, new = (packages.file(wanted, version) for version in versions)
    expected = expected_changes(Functions(old), Functions(new))
    problems = difference(expected, said_changes(drifts(program, old, new)))
    return f"{wanted.title} {versions[0]} and {versions[1]}: {counts_of(expected)}", shown(problems)


def android_pair(program, libraries, package, old_version, new_version):
    old, new = (libraries.archive(package, version) for version in (old_version, new_version))
    entries = [{info.filename: (path.parent / info.filename, data_offset(path, info)) for info in infos}
               for path, infos in (old, new)]
    found = defaultdict(list)
    gone, added = set(), set()
    for record in drifts(program, old[0], new[0]):
        if record["change"] == "library_gone":
            gone.add(record["entry"])
        elif record["change"] == "library_new":
            added.add(record["entry"])
        else:
            found[record["entry"]].append(record)
    problems = []
    if gone != entries[0].keys() - entries[1].keys():
        problems.append(f"libraries that are gone: {gone}")
    if added != entries[1].keys() - entries[0].keys():
        problems.append(f"libraries that are new: {added}")
    total = Counter()
    for name in sorted(entries[0].keys() & entries[1].keys()):
        expected = expected_changes(*(Functions(*each[name]) for each in entries))
        problems += [f"{name}: {text}" for text in difference(expected, said_changes(found[name]))]
        total += expected
    return (f"{package} {old_version} and {new_version}, {len(entries[0])} libraries, {len(gone)} gone, "
            f"{len(added)} new: {counts_of(total)}", shown(problems))
