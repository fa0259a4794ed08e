# SPDX-License-Identifier: Apache-2.0
"""Questions with a goal for tools/bench --goals: names in large tables, many names at once, long
listings, archives with many entries. Each gives records with a figure and the most it may be."""

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

from measure import instructions, milliseconds_above, once, paired, peak_kilobytes

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/conformance"))
from android import AndroidLibraries
from debian import Packages, Unavailable
from objects import JVM, LIBC, Object
sys.path.insert(0, str(ROOT / "fixtures/art"))
from oat_builder import OatFile

LLVM = Object("libllvm14", "amd64", "usr/lib/*/libLLVM-14.so.1")
ENTRIES = 70_000
NAMES = 10_000
CLASSES, METHODS = 1_300, 20  # of a made OAT file
PEAK_KILOBYTES = 32 * 1024
ABOVE = "processor time above process start"


class Goals:
    def __init__(self, binary, cache, folder, pairs):
        self.binary = binary
        self.start = [binary, "--version"]
        self.packages = Packages(cache)
        self.libraries = AndroidLibraries(cache, ROOT / "tools/make-archive")
        self.folder = folder
        self.pairs = pairs

    def all(self):
        for question in (self.exact_name, self.local_name, self.listing, self.many_names,
                         self.large_archive, self.java_methods, self.many_java_methods):
            try:
                yield from question()
            except Unavailable as error:
                yield {"type": "goal", "question": question.__name__, "skipped": str(error)}

    def record(self, question, figure, most, unit="", argv=None):
        """The figure, and the peak memory of the command that it was measured with."""
        figures = [(question, figure, most, unit)]
        if argv and (peak := peak_kilobytes(argv)) is not None:
            figures.append(("  peak memory of it", peak, PEAK_KILOBYTES, "kB"))
        for text, value, bound, name in figures:
            yield {"type": "goal", "question": text, "figure": value, "most": bound, "unit": name,
                   "met": value <= bound}

    def library(self, package, path):
        return str(self.packages.file(Object(package, "amd64", path)))

    def resolve(self, target, *names):
        return [self.binary, "resolve", "-q", target, *names]

    def exact_name(self):
        large = self.resolve(str(self.packages.file(LLVM)), "LLVMContextCreate")
        small = self.resolve(self.library("libc6", LIBC), "malloc")
        counts = [instructions(argv, self.folder) for argv in (large, small)]
        if None not in counts:
            yield from self.record("exact name, 110 MB library / libc: instructions",
                                   round(counts[0] / counts[1], 3), 1.5)
        yield from self.record("exact name, 110 MB library / libc: page faults",
                               round(once(large).page_faults / once(small).page_faults, 3), 1.5,
                               argv=large)

    def local_name(self):
        library = self.library("openjdk-17-jre-headless", JVM)
        text = subprocess.run(["nm", library], capture_output=True, text=True, check=True).stdout
        local = [line.split()[2] for line in text.splitlines() if " t " in line]
        unique = [name for name in local if local.count(name) == 1][:200]
        name = unique[len(unique) // 2]
        nm = ["/bin/sh", "-c", f"nm '{library}' | grep -w '{name}'"]
        argv = self.resolve(library, name)
        yield from self.record("local name in libjvm's .symtab / nm FILE | grep: time",
                               paired(argv, nm, self.pairs)["median"], 0.2, argv=argv)

    def android_library(self):
        for name, elf, _, _ in self.libraries.of("@nativescript/android"):
            if "regular/jni/arm64-v8a/libNativeScript" in name:
                return str(elf)
        raise Unavailable("the package has no libNativeScript.so")

    def listing(self):
        library = self.android_library()
        nm = "/usr/bin/nm"
        for question, options, against in (("text / nm -D", [], [nm, "-D", library]),
                                           ("JSON / nm -DC", ["--json"], [nm, "-DC", library])):
            argv = [self.binary, "list-symbols", *options, library]
            yield from self.record(f"list-symbols of libNativeScript.so, {question}: time",
                                   paired(argv, against, self.pairs)["median"], 0.5, argv=argv)
        argv = [self.binary, "list-symbols", "--sort", "name", "--kind", "function,import,plt",
                "--json", library]
        yield from self.record("list-symbols of libNativeScript.so, JSON by name, imports and PLT: "
                               "peak memory", peak_kilobytes(argv), PEAK_KILOBYTES, "kB")

    def many_names(self):
        for library in (str(self.packages.file(LLVM)), self.android_library()):
            text = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True,
                                  text=True, check=True).stdout
            found = {line.split()[2].split("@")[0] for line in text.splitlines() if " T " in line}
            names = sorted(found)[:NAMES]
            requests = self.folder / "requests"
            requests.write_text("\n".join(f"{library} {name}" for name in names) + "\n")
            title = f"{len(names):,} names of {Path(library).name}"
            # Handing 700 KB of arguments over is the kernel's work before any program begins, 3 ms
            # of it for `true` as well: the start that is compared with is given the same.
            start = [self.binary, "resolve", "--version", library, *names]
            for how, argv, base in (
                    ("one call", self.resolve(library, *names), start),
                    ("-f FILE", [self.binary, "resolve", "-q", "-f", str(requests)], self.start)):
                same = " with the same arguments" if base is start else ""
                yield from self.record(f"{title}, {how}, {ABOVE}{same}",
                                       milliseconds_above(argv, base, self.pairs), 15, "ms",
                                       argv=argv)

    def large_archive(self):
        library = self.library("libc6", LIBC)
        entries = [{"name": "res/{n}.xml", "text": "x", "repeat": ENTRIES},
                   {"name": "lib/x86_64/libc.so", "file": library, "align": 16384}]
        (self.folder / "many.json").write_text(json.dumps(entries))
        archive = self.folder / "many.apk"
        make_archive = ROOT / "tools/make-archive"
        subprocess.run([make_archive, self.folder / "many.json", archive], check=True)
        argv = self.resolve(f"{archive}!/lib/x86_64/libc.so", "malloc")
        yield from self.record(f"name in an archive of {ENTRIES:,} entries, {ABOVE}",
                               milliseconds_above(argv, self.start, self.pairs), 5, "ms", argv=argv)

    def java_methods(self):
        """Of the largest sample of UPROBECTL_CORPUS."""
        corpus = os.environ.get("UPROBECTL_CORPUS")
        samples = sorted(Path(corpus).glob("oat/*/*.odex"), key=lambda path: path.stat().st_size) if corpus else []
        if not samples:
            raise Unavailable("UPROBECTL_CORPUS has no OAT files")
        file = samples[-1]
        size = sum(path.stat().st_size for path in file.parent.glob(file.stem + ".*"))
        every = [self.binary, "list-symbols", "-q", str(file)]
        listed = subprocess.run(every, capture_output=True, text=True, check=True).stdout.splitlines()
        one = self.resolve(str(file), listed[len(listed) // 2].split("\t")[-1])
        for question, argv, most in ((f"all {len(listed):,} methods of {file.name}", every, 10),
                                     (f"one method of {file.name}", one, 3)):
            yield from self.record(f"{question}, {ABOVE}",
                                   milliseconds_above(argv, self.start, self.pairs), most, "ms")
            peaks = [peak_kilobytes(each) for each in (argv, self.start)]
            if None not in peaks:
                yield from self.record("  peak memory above process start / file, with its DEX files",
                                       round((peaks[0] - peaks[1]) * 1024 / size, 3), 3)

    def many_java_methods(self):
        """As many as a large app has: one of them is found without reading all names."""
        bodies = {f"body{i}": bytes.fromhex("1f2003d5") * (i % 60 + 1) + struct.pack("<I", 0xd2800000 | i << 5) +
                  bytes.fromhex("c0035fd6") for i in range(4_000)}
        classes = [{"name": f"com.example.pkg{n % 40}.Screen{n}", "super": "java.lang.Object", "methods": [
            {"name": f"onEvent{i}", "returns": "void", "parameters": ["int", "java.lang.String"][:i % 3],
             "code": f"body{(n * METHODS + i) % len(bodies)}"} for i in range(METHODS)]} for n in range(CLASSES)]
        variant = {"version": 265, "isa": "arm64", "dex": "jar", "base": 0x694, "vdex": 27, "record": 7, "sha": True,
                   "magic": True}
        quarter = CLASSES // 4
        parts = [classes[at:at + quarter] for at in range(0, CLASSES, quarter)]
        OatFile("many", variant, {"dex_files": parts}, bodies).make(self.folder)
        argv = self.resolve(str(self.folder / "many.odex"), "com.example.pkg17.Screen657.onEvent11")
        yield from self.record(f"one of {CLASSES * METHODS:,} Java methods, {ABOVE}",
                               milliseconds_above(argv, self.start, self.pairs), 10, "ms", argv=argv)
