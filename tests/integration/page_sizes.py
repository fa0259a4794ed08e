#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""page_sizes.py UPROBECTL
`uprobectl list-symbols --check` on libraries of both linkers, machines and page sizes: against the rule of
Android's own check of loaded segments and RELRO (AOSP system/extras, libelfpolicy), applied here to what
GNU readelf prints; on archives against offsets that Python's zipfile has and against zipalign. Prints TAP."""

import itertools
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap

UPROBECTL = sys.argv[1]
PAGE = 16384
# Pointers in RELRO, and data and zeros after it.
SOURCE = """extern int imported;
int data = 1, zeros[3000];
int *const pointers[700] = {&data, &imported, zeros};
int *volatile got;
int work(int x) { got = &imported; return data += x + zeros[x] + *pointers[x]; }
"""
TARGETS = {"x86_64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu", "arm": "armv7-linux-gnueabihf"}
GNU = {"x86_64": "gcc", "arm64": "aarch64-linux-gnu-gcc"}

tap = Tap()


def expect_equal(name, found, expected):
    tap.check(name, [] if found == expected else [f"found:    {found}", f"expected: {expected}"])


def check(*words):
    done = subprocess.run([UPROBECTL, "list-symbols", "--check", "--json", *map(str, words)], capture_output=True,
                          text=True)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def build(folder, name, machine, linker, *flags):
    library = folder / name
    source = folder / "work.c"
    source.write_text(SOURCE)
    command = [GNU[machine], "-fuse-ld=bfd"] if linker == "bfd" else [
        "clang-19", f"--target={TARGETS[machine]}", "-fuse-ld=lld"]
    subprocess.run([*command, "-O1", "-fPIC", "-shared", "-nostdlib", "-Wl,--no-undefined-version", *flags,
                    source, "-o", library], check=True, capture_output=True)
    return library


def segments_of(library):
    text = subprocess.run(["readelf", "-lW", library], capture_output=True, text=True, check=True).stdout
    return [(kind, int(address, 16), int(size, 16), int(alignment, 16)) for kind, address, size, alignment in re.findall(
        r"^ +(LOAD|GNU_RELRO) +0x\S+ +(0x\S+) +0x\S+ +0x\S+ +(0x\S+) +.* (0x\S+)$", text, re.M)]


def android_rules(library):
    """The rules that libelfpolicy finds broken (VerifyLoadSegmentsAlignment, VerifyRelroSegment)."""
    segments = segments_of(library)
    loads = sorted(segment[1:] for segment in segments if segment[0] == "LOAD")
    broken = {"segment_alignment"} if min(load[2] for load in loads) < PAGE else set()
    for kind, begin, size, _ in segments:
        if kind != "GNU_RELRO":
            continue
        ends = [load[0] for load in loads[1:]] + [1 << 64]
        load = next((load for load, end in zip(loads, ends) if begin >= load[0] and begin + size <= end), None)
        if load is None:
            continue
        if begin == load[0] and begin + size >= load[0] + load[1]:
            continue  # the whole segment
        if begin % PAGE and begin != load[0] or (begin + size) % PAGE and begin + size != load[0] + load[1]:
            broken.add("relro")
    return broken


def test_linkers(folder):
    problems, results = [], {}
    for number, (machine, linker, largest, common, relro) in enumerate(itertools.product(
            ["x86_64", "arm64"], ["bfd", "lld"], [4096, 16384, 65536], [4096, 16384], ["relro", "norelro"])):
        if common > largest:
            continue
        library = build(folder, f"lib{number}.so", machine, linker, f"-Wl,-z,{relro}", "-Wl,-z,now",
                        f"-Wl,-z,max-page-size={largest}", f"-Wl,-z,common-page-size={common}")
        status, records, _ = check(library)
        found = {record["rule"] for record in records if not record["ok"]}
        results[machine, linker, largest, common, relro] = found
        expected = android_rules(library)
        if found != expected or status != (1 if expected else 0):
            problems.append(f"{machine} {linker} max {largest} common {common} {relro}: status {status}, {found}, "
                            f"Android finds {expected}: {segments_of(library)}")
    tap.check(f"{len(results)} libraries are judged as Android judges them", problems)
    # Independent of both: what is known of the linkers.
    expect_equal("GNU ld ends RELRO of 4 KiB pages in the middle of a page of 16 KiB",
                 results["arm64", "bfd", 4096, 4096, "relro"], {"segment_alignment", "relro"})
    expect_equal("segments of 4 KiB", results["arm64", "lld", 4096, 4096, "norelro"], {"segment_alignment"})
    expect_equal("lld's segments of 16 KiB are ready", results["arm64", "lld", 16384, 16384, "relro"], set())
    expect_equal("so are those of 64 KiB", results["arm64", "lld", 65536, 16384, "norelro"], set())


def pack(path, entries):
    """entries: (name, content, compression, remainder of the data's offset by 16 KiB, or None)."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, content, compression, remainder in entries:
            info = zipfile.ZipInfo(name)
            info.compress_type = compression
            if remainder is not None:
                begin = archive.fp.tell() + 30 + len(name)
                padding = (remainder - begin) % PAGE
                padding += PAGE if padding < 4 else 0
                info.extra = struct.pack("<HH", 0xD935, padding - 4) + bytes(padding - 4)  # as zipalign pads
            archive.writestr(info, content)
    return path


def data_offsets(path):
    with zipfile.ZipFile(path) as archive, open(path, "rb") as file:
        for info in archive.infolist():
            file.seek(info.header_offset + 26)
            yield info, info.header_offset + 30 + sum(struct.unpack("<HH", file.read(4)))


def summary(records):
    return [(record["name"].rpartition("/")[0].rpartition("!/")[2] if "!/" in record["name"] else "", record["ok"],
             record["rule"]) for record in records]


def test_archives(folder):
    good = build(folder, "good.so", "arm64", "lld", "-Wl,-z,max-page-size=16384", "-Wl,-z,common-page-size=16384")
    small = build(folder, "small.so", "x86_64", "lld", "-Wl,-z,max-page-size=4096", "-Wl,-z,norelro")
    narrow = build(folder, "narrow.so", "arm", "lld", "-Wl,-z,max-page-size=4096")
    stored, deflated = zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED
    name = "lib/{}/libwork.so".format
    ready = pack(folder / "ready.apk", [
        ("AndroidManifest.xml", b"x", deflated, None), (name("arm64-v8a"), good.read_bytes(), stored, 0),
        (name("armeabi-v7a"), narrow.read_bytes(), stored, 4096), ("lib/x86_64/wrap.sh", b"#!", stored, None)])
    status, records, errors = check(ready)
    expect_equal("an APK that is ready has one record, which says what was not checked", (status, records, errors), (0, [{
        "type": "check", "name": str(ready), "ok": True, "rule": None, "fix": None, "reason":
        "ready; 1 of 2 libraries are of 32-bit machines, which no device with 16 KiB pages runs"}], ""))
    text = subprocess.run([UPROBECTL, "list-symbols", "--check", ready, good], capture_output=True, text=True).stdout
    expect_equal("its text is one line for each TARGET", text.splitlines(), [
        f"{ready}\tyes\tready; 1 of 2 libraries are of 32-bit machines, which no device with 16 KiB pages runs",
        f"{good}\tyes\tready"])

    bad = pack(folder / "bad.apk", [
        ("AndroidManifest.xml", b"x", deflated, None), (name("arm64-v8a"), good.read_bytes(), stored, 4096),
        (name("x86_64"), small.read_bytes(), stored, 0), (name("riscv64"), small.read_bytes(), deflated, None),
        (name("armeabi-v7a"), narrow.read_bytes(), stored, 8), (name("x86"), good.read_bytes()[:90], stored, 0)])
    status, records, _ = check(bad)
    expect_equal("each reason has a record", (status, summary(records)), (1, [
        ("lib/arm64-v8a", False, "archive_alignment"), ("lib/x86_64", False, "segment_alignment"),
        ("lib/riscv64", False, "segment_alignment"), ("lib/armeabi-v7a", False, "archive_alignment"),
        ("lib/x86", False, "unreadable"), ("", False, None)]))
    expect_equal("compressed libraries and 32-bit ones are said", records[-1]["reason"],
                 "not ready; 1 of 5 libraries are compressed: the device extracts them (extractNativeLibs); "
                 "1 of 5 libraries are of 32-bit machines, which no device with 16 KiB pages runs")
    expect_equal("how to build it is said", [record["fix"] for record in records[:2]],
                 ["zipalign -P 16", "-Wl,-z,max-page-size=16384"])

    bundle = pack(folder / "app.aab", [("BundleConfig.pb", bytes([0x12, 4, 0x12, 2, 0x10, 1]), deflated, None),
                                       ("base/" + name("arm64-v8a"), good.read_bytes(), deflated, None)])
    status, records, _ = check(bundle)
    expect_equal("of a bundle the alignment that bundletool will use counts",
                 (status, [(record["name"], record["rule"]) for record in records]),
                 (1, [(f"{bundle}!/BundleConfig.pb", "archive_alignment")]))
    bundle = pack(folder / "new.aab", [("BundleConfig.pb", bytes([0x12, 4, 0x12, 2, 0x10, 2]), deflated, None),
                                       ("base/" + name("arm64-v8a"), good.read_bytes(), deflated, None)])
    expect_equal("a bundle that is ready", check(bundle)[0], 0)
    apks = pack(folder / "app.apks", [("splits/base.apk", bad.read_bytes(), stored, None),
                                      ("splits/broken.apk", b"PK", stored, None)])
    status, records, _ = check(apks)
    expect_equal("APKs in an archive count from their own begin", (status, summary(records)[0], len(records)),
                 (1, ("lib/arm64-v8a", False, "archive_alignment"), 7))

    unaligned = bytearray(good.read_bytes())
    table, = struct.unpack_from("<Q", unaligned, 32)
    count, = struct.unpack_from("<H", unaligned, 56)
    for header in range(table, table + 56 * count, 56):
        struct.pack_into("<Q", unaligned, header + 48, 0)
    (folder / "unaligned.so").write_bytes(unaligned)
    expect_equal("segments without an alignment are not aligned", [record["rule"] for record in check(
        folder / "unaligned.so")[1]], ["segment_alignment"])

    apps = folder / "apps"
    (apps / "sub").mkdir(parents=True)
    for path in (ready, bad):
        shutil.copy(path, apps / "sub")
    shutil.copy(small, apps)
    (apps / "README").write_text("no library")
    status, records, _ = check(apps, good)
    expect_equal("folders and several TARGETs are checked in one run",
                 (status, len(records), records[0]["name"], records[-1]["name"]),
                 (1, 8, f"{apps}/small.so", str(good)))
    status, records, errors = check(folder / "work.c")
    expect_equal("another file is an error", (status, records[0]["type"]), (1, "error"))
    (folder / "none").mkdir()
    expect_equal("a folder without any, too", check(folder / "none")[0], 1)


def compare_with_zipalign(name, path):
    """zipalign -p: pages of 4 KiB. That of Debian does not know -P."""
    text = subprocess.run(["zipalign", "-c", "-p", "-v", "4", path], capture_output=True, text=True).stdout
    expected = {entry for entry in re.findall(r"^ *\d+ (\S+) \(BAD", text, re.M) if entry.endswith(".so")}
    listed = subprocess.run([UPROBECTL, "list-symbols", "--json", path], capture_output=True, text=True).stdout
    found = {record["entry"] for record in map(json.loads, listed.splitlines())
             if "not on a page boundary" in (record["reason"] or "")}
    expect_equal(f"{name}: zipalign finds the same libraries", found, expected)
    wide = {f"{path}!/{info.filename}" for info, offset in data_offsets(path)
            if info.filename.endswith(".so") and info.compress_type == 0 and
            (offset % PAGE if re.search("64", info.filename) else offset % 4096)}
    found = {record["name"] for record in check(path)[1] if record["rule"] == "archive_alignment"}
    expect_equal(f"{name}: offsets of zipfile", found, wide)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        test_linkers(folder)
        test_archives(folder)
        if shutil.which("zipalign"):
            compare_with_zipalign("a made APK", folder / "bad.apk")
        else:
            tap.skip("zipalign", "no zipalign")
        corpus = os.environ.get("UPROBECTL_CORPUS")
        if not corpus:
            tap.skip("APKs of the corpus", "UPROBECTL_CORPUS is not set")
        for path in sorted(Path(corpus, "apk").glob("*.apk")) if corpus else []:
            if shutil.which("zipalign"):
                compare_with_zipalign(path.name, path)
            with zipfile.ZipFile(path) as archive:
                expected = set()
                for info in archive.infolist():
                    if re.fullmatch(r"lib/.*64.*/[^/]*\.so", info.filename):
                        library = folder / "entry.so"
                        library.write_bytes(archive.read(info))
                        expected |= {(f"{path}!/{info.filename}", rule) for rule in android_rules(library)}
            found = {(record["name"], record["rule"]) for record in check(path)[1]
                     if record["rule"] in ("segment_alignment", "relro")}
            expect_equal(f"{path.name}: segments as readelf has them", found, expected)
    tap.done()


main()
