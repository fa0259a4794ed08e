#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What tools/package makes of a build: the archive, the Debian package and the bill of materials.
Usage: packages.py SOURCE BUILD [EMULATOR…]; prints TAP. EMULATOR runs programs of another architecture."""

import filecmp
import gzip
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap

# The machine as readelf names it -> GNU's and Debian's name.
MACHINES = {"Advanced Micro Devices X86-64": ("x86_64", "amd64"), "AArch64": ("aarch64", "arm64")}
KINDS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
# 2026-11-22 10:13:20 UTC: any time would do.
TIME = 1795342400

SHARED = ["bin/uprobectl", "share/bash-completion/completions/uprobectl", "share/uprobectl/records.schema.json",
          "share/uprobectl/plan.schema.json", "share/uprobectl/ci/action.yml", "share/uprobectl/ci/check-probes.sh",
          "share/uprobectl/ci/gitlab-ci.yml", "share/uprobectl/ci/uprobectl.gradle",
          "share/uprobectl/bpf/Binder.bpf.c", "share/uprobectl/bpf/Binder.o",
          "share/uprobectl/bpf/GenericInstrumentation.bpf.c", "share/uprobectl/bpf/GenericInstrumentation.o",
          "share/uprobectl/bpf/opens_and_connects.bpf.c", "share/doc/uprobectl/README.md",
          "share/doc/uprobectl/SECURITY.md", "share/doc/uprobectl/uprobectl.spdx.json",
          "share/doc/uprobectl/docs/json-output.md", "share/doc/uprobectl/third-party/LLVM.copyright",
          "share/doc/uprobectl/third-party/glibc.copyright"]
IN_ARCHIVE = ["SHA256SUMS", "share/man/man1/uprobectl.1", "share/zsh/site-functions/_uprobectl",
              "share/doc/uprobectl/LICENSE", "share/doc/uprobectl/CHANGELOG.md",
              "share/doc/uprobectl/LICENSES/GPL-3.0-or-later.txt"]
IN_DEB = ["usr/share/man/man1/uprobectl.1.gz", "usr/share/zsh/vendor-completions/_uprobectl",
          "usr/share/lintian/overrides/uprobectl", "usr/share/doc/uprobectl/copyright",
          "usr/share/doc/uprobectl/changelog.gz", "usr/share/doc/uprobectl/changelog.Debian.gz"]
# Bytes of the stripped program; docs/design/performance.md says what keeps it small.
MAX_PROGRAM = {"x86_64": 15_000_000, "aarch64": 16_000_000}
# What meson.build links, and where Debian has it. All else in the program belongs to the compiler or libc.
LIBRARIES = {"LLVM": "llvm-19-dev", "libbpf": "libbpf-dev", "libelf": "libelf-dev", "zlib": "zlib1g-dev",
             "Zstandard": "libzstd-dev", "liblzma": "liblzma-dev", "fmt": "libfmt-dev", "CLI11": "libcli11-dev",
             "ncurses": "libncurses-dev"}
OF_THE_COMPILER = ["Linux headers", "glibc", "libgcc", "libstdc++"]


def output(*command, **options):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, **options).stdout


def members(data):
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return [(entry, archive.extractfile(entry).read() if entry.isfile() else None) for entry in archive]


def entry_problems(entries):
    """What is wrong with owners, modes and dates."""
    for entry, content in entries:
        program = entry.isdir() or entry.name.endswith("bin/uprobectl")
        expected = (0, 0, 0o755 if program else 0o644, TIME)
        if (entry.uid, entry.gid, entry.mode, entry.mtime) != expected:
            yield f"{entry.name}: {(entry.uid, entry.gid, oct(entry.mode), entry.mtime)}"


def files_of(entries, top):
    """Name below the top folder -> content."""
    return {entry.name.removeprefix("./").removeprefix(top): content for entry, content in entries if entry.isfile()}


def missing(files, wanted):
    return [f"lacks {name}" for name in wanted if name not in files]


def changelog_problems(text):
    headings = re.findall(r"^(#+) (.*)$", text, re.MULTILINE)
    if headings[:2] != [("#", "Changelog"), ("##", "[Unreleased]")]:
        yield f"begins with {headings[:2]}"
    for level, heading in headings[2:]:
        known = {"##": re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", heading), "###": heading in KINDS}
        if not known.get(level):
            yield f"unexpected heading: {level} {heading}"


def bill_problems(bill, licences, is_native):
    packages = {package["name"]: package for package in bill["packages"]}
    if sorted(packages) != sorted([*LIBRARIES, *OF_THE_COMPILER, "uprobectl"]):
        yield f"packages: {sorted(packages)}"
    for name, package in packages.items():
        if name in LIBRARIES and is_native:
            version = output("dpkg-query", "-W", "-f", "${Version}", LIBRARIES[name], text=True)
            if package["versionInfo"] != version:
                yield f"{name}: {package['versionInfo']}, dpkg has {version}"
        for word in set(re.findall(r"[\w.+-]+", package["licenseConcluded"])) - {"AND", "OR", "WITH"}:
            if word not in licences:
                yield f"{name}: LICENSES has no {word}.txt"
    identifiers = {package["SPDXID"] for package in bill["packages"]} | {"SPDXRef-DOCUMENT"}
    for relation in bill["relationships"]:
        if not {relation["spdxElementId"], relation["relatedSpdxElement"]} <= identifiers:
            yield f"relation to something unknown: {relation}"
    if len(bill["relationships"]) != len(bill["packages"]):
        yield "some packages have no relation"


def licence_table_problems(source):
    rows = [line for line in (source / "LICENSES/README.md").read_text().splitlines() if line.startswith("| ")]
    with open(source / "tools/components.toml", "rb") as file:
        for component in tomllib.load(file)["component"]:
            row = next((row for row in rows if component["name"] in row.split("|")[1]), None)
            if row is None or component["license"] not in row:
                yield f"{component['name']}: {component['license']}, the table has {row}"


def run_packager(source, build, folder, umask, **environment):
    """What it says if it fails."""
    result = subprocess.run([source / "tools/package", "--level", "0", build, folder], text=True,
                            capture_output=True, umask=umask,
                            env={**os.environ, "SOURCE_DATE_EPOCH": str(TIME), **environment})
    return [result.stderr] if result.returncode else []


def check_archive(tap, path, top, version, emulator, folder):
    entries = members(path.read_bytes())
    files = files_of(entries, top + "/")
    tap.check("the archive has the program and all that belongs to it", missing(files, SHARED + IN_ARCHIVE))
    outside = [entry.name for entry, _ in entries if entry.name.split("/")[0] != top]
    tap.check("all of it is in one folder, of root and of the given date", outside + list(entry_problems(entries)))
    subprocess.run(["tar", "-xf", path, "-C", folder], check=True)
    result = subprocess.run(["sha256sum", "-c", "--quiet", "SHA256SUMS"], cwd=folder / top, text=True,
                            capture_output=True)
    summed = {line.split("  ")[1] for line in files["SHA256SUMS"].decode().splitlines()}
    tap.check("its checksums are right and complete",
              (result.stdout + result.stderr).splitlines() + sorted(set(files) - summed - {"SHA256SUMS"}))
    shown = output(*emulator, folder / top / "bin/uprobectl", "--version", text=True).splitlines()[0]
    page = files["share/man/man1/uprobectl.1"].decode()
    tap.check("program, man page and changelog name the same version",
              ([] if shown == f"uprobectl {version}" else [f"program: {shown}"]) +
              ([] if f".Os uprobectl {version}\n" in page else ["man page: " + page[:200]]))
    size, limit = len(files["bin/uprobectl"]), MAX_PROGRAM[top.rsplit("-", 1)[1]]
    tap.check("the program is as small as the documents say",
              [f"{size} bytes, at most {limit} are allowed"] if size > limit else [])
    return files


def check_debian_package(tap, path, version, architecture, archive_files, folder):
    entries = members(output("dpkg-deb", "--fsys-tarfile", path))
    files = files_of(entries, "")
    tap.check("the Debian package has the same files, where Debian wants them",
              missing(files, ["usr/" + name for name in SHARED] + IN_DEB) +
              [name for name in SHARED if files.get("usr/" + name) != archive_files.get(name)])
    tap.check("its files are of root and of the given date", list(entry_problems(entries)))
    for name, wanted in {"changelog.gz": f"## [{version}]", "changelog.Debian.gz": f"uprobectl ({version}-1) "}.items():
        text = gzip.decompress(files[f"usr/share/doc/uprobectl/{name}"]).decode()
        tap.check(f"its {name} has the version", [] if wanted in text else [text[:200]])
    fields = {"Package": "uprobectl", "Version": f"{version}-1", "Architecture": architecture}
    shown = {field: output("dpkg-deb", "-f", path, field, text=True).strip() for field in fields}
    tap.check("its fields name package, version and architecture", [] if shown == fields else [shown])
    scripts = set(files_of(members(output("dpkg-deb", "--ctrl-tarfile", path)), "")) - {"control", "md5sums"}
    tap.check("it has no dependencies and no scripts",
              output("dpkg-deb", "-f", path, "Depends", "Recommends", text=True).splitlines() + sorted(scripts))
    subprocess.run(["dpkg-deb", "-R", path, folder], check=True)
    sums = subprocess.run(["md5sum", "-c", "--quiet", "DEBIAN/md5sums"], cwd=folder, text=True, capture_output=True)
    summed = {line.split("  ")[1] for line in (folder / "DEBIAN/md5sums").read_text().splitlines()}
    tap.check("its checksums are right and complete",
              (sums.stdout + sums.stderr).splitlines() + sorted(set(files) - summed))
    if shutil.which("lintian"):
        result = subprocess.run(["lintian", "--allow-root", "--fail-on", "error,warning", path], text=True,
                                capture_output=True)
        tap.check("lintian reports no problems", result.stdout.splitlines() if result.returncode else [])
    else:
        tap.skip("lintian reports no problems", "lintian is not installed")


def main():
    source, build, *emulator = sys.argv[1:]
    source, build = Path(source).resolve(), Path(build).resolve()
    tap = Tap()
    changes = (source / "CHANGELOG.md").read_text()
    tap.check("the changelog has the form of Keep a Changelog", list(changelog_problems(changes)))
    version = re.search(r"^## \[(\d.*)\]", changes, re.MULTILINE)[1]

    program = build / "src/cli/uprobectl"
    machine = re.search(r"Machine: +(.*)", output("readelf", "-h", program, text=True))[1]
    machine, architecture = MACHINES[machine]
    top = f"uprobectl-{version}-linux-{machine}"
    names = [f"{top}.spdx.json", f"{top}.tar.xz", f"uprobectl_{version}-1_{architecture}.deb"]
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        for name in ("first", "second", "unpacked"):
            (folder / name).mkdir()
        said = run_packager(source, build, folder / "first", 0o022)
        if not said and not emulator:
            said = run_packager(source, build, folder / "second", 0o077, TZ="Pacific/Auckland", LC_ALL="C.UTF-8")
        made = sorted(os.listdir(folder / "first"))
        tap.check("an archive, a Debian package and a bill of materials are made",
                  said or ([] if made == names else [made]))
        if said:
            tap.done()
            return
        if not emulator:
            _, different, unreadable = filecmp.cmpfiles(folder / "first", folder / "second", names, shallow=False)
            tap.check("made twice they are the same bytes", different + unreadable)

        archive, package = folder / "first" / names[1], folder / "first" / names[2]
        files = check_archive(tap, archive, top, version, emulator, folder / "unpacked")
        check_debian_package(tap, package, version, architecture, files, folder / "package")

        bill = json.loads(files["share/doc/uprobectl/uprobectl.spdx.json"])
        licences = {path.stem for path in (source / "LICENSES").glob("*.txt")}
        tap.check("the bill of materials names each library, with its version and a licence that is enclosed",
                  list(bill_problems(bill, licences, not emulator)))
        folders = [str(source).encode() + b"/", b"/sysroot-arm64/"]  # the latter is tools/cross's
        tap.check("no file names the folders that it was built in",
                  [name for name, content in files.items() if any(path in content for path in folders)])
        tap.check("LICENSES/README.md names the licence of each library", list(licence_table_problems(source)))
        concluded = " ".join(package["licenseConcluded"] for package in bill["packages"])
        tap.check("each text of LICENSES is used",
                  [name for name in licences if name not in re.findall(r"[\w.+-]+", concluded)])
    tap.done()


main()
