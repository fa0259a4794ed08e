#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""nested_archives.py UPROBECTL
Libraries of APKs inside an archive (.apks, .xapk), of .aab and .aar, names of libraries without folders
(base.apk!libfoo.so), and the error for an APEX. Offsets are those of Python's zipfile, and of the
inner APK when it is extracted. Prints TAP."""

import io
import json
import struct
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from tap import Tap

LIBRARY = "lib/x86_64/libshop.so"
SPLIT = "splits/base-x86_64.apk"


def data_offset(archive, name):
    """Where the bytes of a stored entry begin."""
    with zipfile.ZipFile(archive) as zipped:
        entry = zipped.getinfo(name)
    archive.seek(entry.header_offset)
    header = archive.read(30)
    return entry.header_offset + 30 + sum(struct.unpack_from("<HH", header, 26))


def aligned(archive, name, content, page=16384):
    """Adds a stored entry whose content begins on a page."""
    info = zipfile.ZipInfo(name)
    at = archive.fp.tell() + 30 + len(name)
    info.extra = struct.pack("<HH", 0xD935, (-(at + 4)) % page) + bytes((-(at + 4)) % page)
    archive.writestr(info, content)


def make_apk(library, compression=zipfile.ZIP_STORED):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as apk:
        apk.writestr("AndroidManifest.xml", "x")
        if compression == zipfile.ZIP_STORED:
            aligned(apk, LIBRARY, library)
        else:
            apk.writestr(LIBRARY, library, compression)
    return content.getvalue()


def run(uprobectl, *words):
    return subprocess.run([uprobectl, *map(str, words)], capture_output=True, text=True)


def records(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


def expect(tap, name, holds, why=""):
    tap.check(name, [] if holds else [why or "it does not"])


def check_bundle(tap, uprobectl, folder, apk, name, compression):
    bundle = folder / f"{name}.apks"
    with zipfile.ZipFile(bundle, "w") as archive:
        archive.writestr("toc.pb", "x")
        archive.writestr(SPLIT, apk, compression)
        archive.writestr("splits/base-master.apk", master())
    inner = folder / "inner.apk"
    inner.write_bytes(apk)
    begin = data_offset(io.BytesIO(apk), LIBRARY)
    alone = records(run(uprobectl, "resolve", "--json", f"{inner}!/{LIBRARY}", "shop_pay"))[0]
    done = run(uprobectl, "resolve", "--json", f"{bundle}!/{SPLIT}!/{LIBRARY}", "shop_pay")
    found = records(done)[0]
    expect(tap, f"an offset in an APK that is {name} counts from the start of the APK",
           found["offset"] == alone["offset"] == hex(begin + int(found["image_offset"], 16)), done)
    expect(tap, f"the outer file, the container and the entry are named ({name})",
           (found["file"], found["container"], found["entry"]) == (str(bundle), SPLIT, LIBRARY) and alone["container"] is None,
           done)
    done = run(uprobectl, "list-symbols", bundle)
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    pages = "its segments are aligned for 4 KiB pages, not for 16 KiB (-Wl,-z,max-page-size=16384)"
    expect(tap, f"the APKs and their libraries are listed ({name})",
           [row[6:8] for row in rows] == [[SPLIT, "an APK, its libraries follow"], [f"{SPLIT}!/{LIBRARY}", pages],
                                          ["splits/base-master.apk", "an APK without libraries"]]
           and rows[1][0] == hex(begin) and rows[1][5] == "yes", done)
    listed = records(run(uprobectl, "list-symbols", "--json", bundle, f"*!/{LIBRARY}"))
    expect(tap, f"a listed library has its container ({name})",
           [(each["container"], each["entry"], each["offset"]) for each in listed] == [(SPLIT, LIBRARY, hex(begin))], listed)
    for target in (f"{bundle}!libshop.so", f"{bundle}!/splits/*.apk!/lib/*/libshop.so"):
        done = run(uprobectl, "resolve", "--json", target, "shop_pay")
        expect(tap, f"{target.split(name)[1]} is the library ({name})",
               [each.get("offset") for each in records(done)] == [alone["offset"]], done)
    symbols = [(each["symbol"], each["offset"]) for each in records(
        run(uprobectl, "list-symbols", "--json", f"{bundle}!/{SPLIT}!/{LIBRARY}"))]
    expect(tap, f"its symbols are listed ({name})", ("shop_pay", alone["offset"]) in symbols, symbols)
    for words in (["attach", "--dry-run", f"{bundle}!/{SPLIT}!/{LIBRARY}", "shop_pay"],
                  ["resolve", "--emit", "tracefs", f"{bundle}!/{SPLIT}!/{LIBRARY}", "shop_pay"]):
        done = run(uprobectl, *words)
        expect(tap, f"{words[0]} {words[1]} refuses it ({name})",
               done.returncode == 1 and "in an archive inside an archive" in done.stderr and not done.stdout, done)
    saved = folder / f"{name}.jsonl"
    saved.write_text(run(uprobectl, "resolve", "--json", f"{bundle}!/{SPLIT}!/{LIBRARY}", "shop_pay").stdout)
    done = run(uprobectl, "resolve", "--verify", saved, bundle)
    expect(tap, f"a record of it is verified ({name})", done.returncode == 0 and not done.stdout, done)


def master():
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as apk:
        apk.writestr("AndroidManifest.xml", "x")
    return content.getvalue()


def main():
    uprobectl = Path(sys.argv[1]).resolve()
    tap = Tap()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "shop.c").write_text("int sink;\nint shop_pay(int x) { return sink += x; }\n")
        subprocess.run(["gcc", "-O2", "-shared", "-nostdlib", "-fPIC", "-Wl,--build-id", "shop.c", "-o", "libshop.so"],
                       cwd=folder, check=True)
        library = (folder / "libshop.so").read_bytes()
        apk = make_apk(library)
        check_bundle(tap, uprobectl, folder, apk, "stored", zipfile.ZIP_STORED)
        check_bundle(tap, uprobectl, folder, apk, "deflated", zipfile.ZIP_DEFLATED)

        bundle = folder / "compressed.xapk"
        with zipfile.ZipFile(bundle, "w") as archive:
            archive.writestr("config.apk", make_apk(library, zipfile.ZIP_DEFLATED))
        target = f"{bundle}!/config.apk!/{LIBRARY}"
        done = run(uprobectl, "resolve", target, "shop_pay")
        expect(tap, "a library that is compressed in an inner APK cannot be resolved to an offset of it",
               done.returncode == 1 and "compressed" in done.stderr, done)
        done = run(uprobectl, "resolve", "--json", "--extracted", target, "shop_pay")
        expect(tap, "but as the file that a device extracts",
               [(each["file"], each["offset"]) for each in records(done)] == [(None, None)], done)

        both = folder / "two.apk"
        with zipfile.ZipFile(both, "w") as archive:
            archive.writestr("AndroidManifest.xml", "x")
            aligned(archive, LIBRARY, library)
            aligned(archive, "lib/arm64-v8a/libshop.so", library)
            aligned(archive, "lib/x86_64/libonly.so", library)
            archive.writestr("assets/wear.apk", apk)
        done = run(uprobectl, "resolve", f"{both}!libonly.so", "shop_pay")
        expect(tap, "a library name without folders is found in an APK",
               done.stdout.split("\t")[1:2] == [f"{both}!/lib/x86_64/libonly.so"], done)
        done = run(uprobectl, "resolve", f"{both}!libshop.so", "shop_pay")
        expect(tap, "a name of several ABIs is an error with the candidates",
               done.returncode == 1 and done.stderr.count("candidate: ") == 2
               and f"{both}!/lib/arm64-v8a/libshop.so" in done.stderr and "assets" not in done.stderr, done)
        done = run(uprobectl, "resolve", f"{both}!libonli.so", "shop_pay")
        expect(tap, "a misspelt one gets a suggestion", done.returncode == 1 and "libonly.so" in done.stderr, done)
        done = run(uprobectl, "resolve", f"{both}!/assets/wear.apk!/{LIBRARY}", "shop_pay")
        expect(tap, "an APK in an APK can be named", done.returncode == 0 and done.stdout.startswith("0x"), done)
        done = run(uprobectl, "list-symbols", both)
        expect(tap, "but is not listed", "wear" not in done.stdout and done.stdout.count("\n") == 3, done)

        third = folder / "deep.zip"
        with zipfile.ZipFile(third, "w") as archive:
            archive.write(both, "a.apk")
        done = run(uprobectl, "resolve", f"{third}!/a.apk!/assets/wear.apk!/{LIBRARY}", "shop_pay")
        expect(tap, "a third level is refused", done.returncode == 1 and "an archive in an archive in an archive" in done.stderr,
               done)
        done = run(uprobectl, "resolve", f"{third}!/b.apk!/{LIBRARY}", "shop_pay")
        expect(tap, "a missing inner archive is an error", done.returncode == 1 and done.stderr, done)
        literal = folder / "literal.zip"
        with zipfile.ZipFile(literal, "w") as archive:
            aligned(archive, "a.apk!/lib.so", library)
        done = run(uprobectl, "resolve", "--json", f"{literal}!/a.apk!/lib.so", "shop_pay")
        expect(tap, "an entry with '!/' in its name is an entry",
               [(each["container"], each["entry"]) for each in records(done)] == [(None, "a.apk!/lib.so")], done)

        app = folder / "app.aab"
        with zipfile.ZipFile(app, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("BundleConfig.pb", "x")
            archive.writestr("base/lib/x86_64/libshop.so", library, zipfile.ZIP_STORED)
        package = folder / "package.aar"
        with zipfile.ZipFile(package, "w") as archive:
            archive.writestr("AndroidManifest.xml", "x")
            archive.writestr("classes.jar", "x")
            archive.writestr("jni/x86_64/libshop.so", library)
        packed = folder / "packed.aab"
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("BundleConfig.pb", "x")
            archive.writestr("base/lib/x86_64/libshop.so", library)
        loose = folder / "libshop.so"
        alone = records(run(uprobectl, "resolve", "--json", loose, "shop_pay"))[0]
        done = run(uprobectl, "resolve", "--json", f"{packed}!libshop.so", "shop_pay")
        expect(tap, "names are found in a compressed library of an .aab, which has no file of its own",
               [(each["file"], each["offset"], each["image_offset"]) for each in records(done)]
               == [(None, None, alone["image_offset"])] and "in an app bundle" in done.stderr, done)
        done = run(uprobectl, "attach", "--dry-run", f"{packed}!libshop.so", "shop_pay")
        expect(tap, "it is not attached to", done.returncode == 1 and "compressed in its archive" in done.stderr, done)
        done = run(uprobectl, "list-symbols", f"{folder / 'stored.apks'}!/{SPLIT}")
        expect(tap, "an inner APK as TARGET is called an archive",
               done.returncode == 1 and "an archive, not an ELF file" in done.stderr
               and f"{SPLIT}!/lib/" in done.stderr, done)
        for archive, entry, kind in ((app, "base/lib/x86_64/libshop.so", "in an app bundle"),
                                     (package, "jni/x86_64/libshop.so", "in a library package")):
            done = run(uprobectl, "list-symbols", archive)
            row = done.stdout.rstrip("\n").split("\t")
            expect(tap, f"libraries of an {archive.suffix} are listed", row[5:7] == ["no", entry] and kind in row[7], done)
            done = run(uprobectl, "resolve", f"{archive}!libshop.so", "shop_pay")
            expect(tap, f"names are found in an {archive.suffix}, with a warning", done.returncode == 0 and kind in done.stderr,
                   done)

        apex = folder / "com.android.foo.apex"
        with zipfile.ZipFile(apex, "w") as archive:
            archive.writestr("apex_manifest.pb", "x")
            archive.writestr("apex_payload.img", b"\0" * 4096)
        compressed = folder / "com.android.foo.capex"
        with zipfile.ZipFile(compressed, "w") as archive:
            archive.write(apex, "original_apex")
        for words in (["list-symbols", apex], ["resolve", f"{apex}!/lib64/libfoo.so", "f"], ["resolve", f"{apex}!libfoo.so", "f"]):
            done = run(uprobectl, *words)
            expect(tap, f"{words[0]} of {Path(words[1]).name} says what an APEX is",
                   done.returncode == 1 and "apex_payload.img" in done.stderr and "debugfs" in done.stderr, done)
        done = run(uprobectl, "list-symbols", compressed)
        expect(tap, "a compressed APEX is called that", done.returncode == 1 and "original_apex" in done.stderr, done)
    tap.done()


if __name__ == "__main__":
    main()
