#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Conformance over real objects: every defined function's name, version, size, kind and offset as
uprobectl gives them, against GNU readelf and an independent reading of the program headers; in
archives against Python's zipfile too; every static probe's locations, semaphores and arguments; what `diff` says of
published pairs of builds. Prints TAP and, as comments, what deliberately differs.

Usage: run.py UPROBECTL [--bounded] [--cache DIR] [WORD…]
  --bounded  only small packages of few architectures, as CI runs it
  WORD       only objects whose title has all the words, such as: libc6:arm64"""

import argparse
import os
import shutil
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from android import LIBRARY_PACKAGES, AndroidLibraries
from compare import list_problems, records, resolve_problems
from debian import Packages, Unavailable
from expectation import EXCEPTIONS, LABELS, Expectation
from objects import OBJECTS, STATIC_OBJECTS
from pairs import ANDROID_PAIRS, DEBIAN_PAIRS, android_pair, debian_pair
from readelf_rows import rows_of
from segments import Segments
from static_probes import arguments_left, expected_probes, static_problems
from tap import Tap

ROOT = Path(__file__).resolve().parent.parent.parent
FEW = 100  # real objects have more functions: fewer mean that the suite reads them wrongly


class Suite:
    def __init__(self, program):
        self.tap = Tap()
        self.program = program
        self.counts = Counter()
        self.left = Counter()  # arguments, by object and what is said of them

    def check(self, title, elf, target, every=False, base=0, few=FEW):
        """Two cases: the list, and names asked for. elf has the ELF bytes that target names."""
        try:
            expectation = Expectation(rows_of(elf), Segments(elf.read_bytes()))
        except Exception as error:  # the suite's own trouble with a file is a failure, not an end
            self.tap.fail(f"{title}: readelf's answer is understood", repr(error))
            return
        self.counts += expectation.counts
        count = len(expectation.symbols)
        problems = [] if count > few else [f"readelf lists only {count} functions"]
        self.tap.check(f"{title}: {count} symbols listed as readelf has them",
                       problems + list_problems(self.program, target, expectation, base))
        problems, asked = resolve_problems(self.program, target, expectation, every, base)
        self.tap.check(f"{title}: {asked} names resolve to readelf's offsets", problems)

    def print_exceptions(self):
        print("# deliberate differences, by number of rows:")
        for key, meaning in EXCEPTIONS.items():
            print(f"# {self.counts[key]:8}  {meaning}")
        print(f"# {self.counts[LABELS]:8}  {LABELS}")


    def check_static(self, title, elf, target):
        """One case: the static probes."""
        try:
            expected = expected_probes(elf, Segments(elf.read_bytes()))
        except Exception as error:
            self.tap.fail(f"{title}: readelf's notes are understood", repr(error))
            return
        problems = [] if expected else ["readelf has no static probes"]
        listed = records(self.program, "usdt", "list", "--json", target)
        self.tap.check(f"{title}: {len(expected)} static probes listed as readelf has them",
                       problems + static_problems(listed, expected))
        self.left += arguments_left(title, listed)

    def print_arguments(self):
        print("# arguments of static probes that are not understood or out of a program's reach:")
        for (title, text), count in sorted(self.left.items()):
            print(f"# {count:8}  {title}: {text}")


def files_of(suite, options, objects):
    packages = Packages(options.cache)
    for wanted in objects:
        if options.bounded and not wanted.bounded or not all(w in wanted.title for w in options.words):
            continue
        try:
            file = packages.file(wanted)
        except Unavailable as error:
            suite.tap.skip(wanted.title, f"cannot be had: {error}")
            continue
        yield wanted, file


def debian_cases(suite, options):
    for wanted, file in files_of(suite, options, OBJECTS):
        suite.check(wanted.title, file, str(file), wanted.every_name)
    for wanted, file in files_of(suite, options, STATIC_OBJECTS):
        suite.check_static(wanted.title, file, str(file))


def android_cases(suite, options):
    libraries = AndroidLibraries(options.cache, ROOT / "tools/make-archive")
    for package in LIBRARY_PACKAGES:
        if options.bounded or not all(w in package for w in options.words):
            continue
        try:
            for name, elf, target, base in libraries.of(package):
                suite.check(f"{name} of {package}", elf, target, base=base, few=0)
        except Unavailable as error:
            suite.tap.skip(f"libraries of {package}", f"cannot be had: {error}")


def pair_cases(suite, options):
    packages = Packages(options.cache)
    libraries = AndroidLibraries(options.cache, ROOT / "tools/make-archive")
    cases = [(f"pair {wanted.title}", wanted.bounded, debian_pair, (packages, wanted)) for wanted in DEBIAN_PAIRS]
    cases += [(f"pair {pair[0]}", False, android_pair, (libraries, *pair)) for pair in ANDROID_PAIRS]
    for title, bounded, compare, arguments in cases:
        if options.bounded and not bounded or not all(w in title for w in options.words):
            continue
        try:
            found, problems = compare(suite.program, *arguments)
            suite.tap.check(f"pair {found}", problems)
        except AssertionError as error:
            suite.tap.check(title, [str(error)])
        except Unavailable as error:
            suite.tap.skip(title, f"cannot be had: {error}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", metavar="UPROBECTL")
    parser.add_argument("--bounded", action="store_true")
    cache = os.environ.get("UPROBECTL_CONFORMANCE_CACHE") or ROOT / "build/conformance-cache"
    parser.add_argument("--cache", type=Path, default=Path(cache))
    parser.add_argument("words", nargs="*", metavar="WORD")
    options = parser.parse_intermixed_args()  # WORDs may follow options
    suite = Suite(options.program)
    if not shutil.which("readelf"):
        suite.tap.skip("conformance", "no readelf on this machine")
    else:
        options.cache.mkdir(parents=True, exist_ok=True)
        debian_cases(suite, options)
        android_cases(suite, options)
        pair_cases(suite, options)
        suite.print_exceptions()
        suite.print_arguments()
    suite.tap.done()
    sys.exit(1 if suite.tap.failed else 0)


main()
