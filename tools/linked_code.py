# SPDX-License-Identifier: Apache-2.0
"""Third-party code in a static program: which Debian packages it comes from, and under which licence.

The linker is asked, by linking the program of a build folder once more with a map; headers come from
ninja's log of dependencies. tools/components.toml knows the licences."""

import gzip
import json
import os
import re
import shlex
import subprocess
import tempfile
import tomllib
import urllib.parse
import uuid
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = "src/cli/uprobectl"
# Debian's names of the architectures of programs.
DEBIAN_NAMES = {"x86_64": "amd64", "aarch64": "arm64"}


class Problem(Exception):
    """What keeps a package from being made; the text says why."""


@dataclass
class LinkedCode:
    """A component of the program, and the Debian package that it comes from."""
    name: str
    license: str
    chosen: str
    package: str
    version: str
    source: str
    source_version: str
    architecture: str
    copyright: Path
    is_linked: bool  # otherwise only its headers are compiled in
    purl: str = field(init=False)

    def __post_init__(self):
        version = urllib.parse.quote(self.version, safe="~.-")
        package = urllib.parse.quote(self.package, safe=".-")
        self.purl = f"pkg:deb/debian/{package}@{version}?arch={self.architecture}"


def output_of(*command, **options):
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout
    except subprocess.CalledProcessError as error:
        raise Problem(f"{shlex.join(map(str, command))[:100]}: {(error.stderr or error.stdout)[-1000:]}") from None


def linked_files(build):
    """The archives of which a member is in the program, and the single object files, by a map of GNU ld."""
    command = output_of("ninja", "-C", build, "-t", "commands", PROGRAM).splitlines()[-1]
    with tempfile.TemporaryDirectory() as folder:
        program, link_map = Path(folder, "program"), Path(folder, "map")
        words = shlex.split(command)
        words[words.index("-o") + 1] = str(program)
        output_of(*words, f"-Wl,-Map={link_map}", cwd=build)
        if program.read_bytes() != Path(build, PROGRAM).read_bytes():
            raise Problem(f"{build}/{PROGRAM} is not what its build folder links now (run ninja)")
        lines = link_map.read_text().splitlines()
    try:
        first = next(n for n, line in enumerate(lines) if line.startswith("Archive member included"))
    except StopIteration:
        raise Problem(f"{build} is not linked by GNU ld") from None
    last = next(n for n, line in enumerate(lines[first + 2:], first + 2) if line and line[0].isupper())
    archives = {line.rpartition("(")[0] for line in lines[first:last] if re.match(r"\S+\.a\(", line)}
    objects = {line.split(maxsplit=1)[1] for line in lines if re.match(r"LOAD \S+\.o$", line)}
    return {os.path.normpath(path) for path in archives | objects if os.path.isabs(path)}


def included_files(build):
    """The headers of others that the objects of the program were compiled with."""
    headers, wanted = set(), False
    for line in output_of("ninja", "-C", build, "-t", "deps").splitlines():
        if line and not line[0].isspace():
            wanted = line.startswith("src/")
        elif wanted and line:
            headers.add(os.path.normpath(build / line.strip()))
    # Ninja keeps the dependencies of objects that are no longer built: their files may be gone.
    return {path for path in headers
            if os.path.exists(path) and (sysroot_of(path) or ROOT not in Path(path).parents)}


def sysroot_of(path):
    """The folder of tools/cross that holds a file; None for files of the machine."""
    return next((folder for folder in Path(path).parents if (folder / "packages").is_file()), None)


def component_path(path):
    """A path as components.toml has it."""
    shown = str(path).removeprefix(str(sysroot_of(path) or ""))
    shown = re.sub(r"^/(usr/)?", "", shown)
    return re.sub(r"(x86_64|aarch64)-linux-gnu/", "", shown)


def installed_origins(paths):
    """Path -> where it comes from, for files of installed Debian packages."""
    # dpkg knows a file by the path it was packed with, which may be below /lib or below /usr/lib.
    names = {spelling: path for path in paths
             for plain in [re.sub(r"^/usr(?=/lib)", "", path)] for spelling in (path, plain, "/usr" + plain)}
    listing = subprocess.run(["dpkg-query", "-S", *names], capture_output=True, text=True).stdout
    packages = {names[name]: owners.split(",")[0] for owners, _, name in
                (line.rpartition(": ") for line in listing.splitlines()) if name in names}
    if missing := sorted(set(paths) - packages.keys()):
        raise Problem(f"{missing[0]}: of no Debian package")
    form = "${Package}\t${Version}\t${source:Package}\t${source:Version}\t${Architecture}"
    # One query for each: an answer does not say which package of another architecture was asked for.
    known = {package: output_of("dpkg-query", "-W", "-f", form, package).split("\t")
             for package in set(packages.values())}
    return {path: (*known[package], Path("/usr/share/doc", known[package][0], "copyright"))
            for path, package in packages.items()}


def unpacked_origin(component, sysroot, architecture):
    """Of a package that tools/cross has unpacked: its changelog has the version. A rebuild of the same
    source adds a changelog of the architecture."""
    package = component["package"]
    folder = sysroot / "usr/share/doc" / package
    versions = []
    for name in ["changelog.Debian.gz", f"changelog.Debian.{architecture}.gz"]:
        if (folder / name).exists():
            with gzip.open(folder / name, "rt") as file:
                versions.append(re.match(r"(\S+) \((\S+)\)", file.readline()).groups())
    if not versions:
        raise Problem(f"{folder}: no changelog.Debian.gz, so the version of {package} is not known")
    source, source_version = versions[0]
    return package, versions[-1][1], source, source_version, architecture, folder / "copyright"


def linked_code(build, machine):
    """All third-party code of the program of a build folder, by name."""
    with open(ROOT / "tools/components.toml", "rb") as file:
        components = tomllib.load(file)["component"]
    linked = linked_files(build)
    found = {}
    for path in sorted(linked) + sorted(included_files(build)):
        shown = component_path(path)
        for component in components:
            if any(re.fullmatch(pattern, shown) for pattern in component["files"]):
                found.setdefault(component["name"], (component, path))
                break
        else:
            raise Problem(f"{path} is in the program, and tools/components.toml does not know its licence")
    installed = installed_origins([path for _, path in found.values() if not sysroot_of(path)])
    code = []
    for name, (component, path) in found.items():
        package, version, source, source_version, architecture, copyright_file = (
            installed.get(path) or unpacked_origin(component, sysroot_of(path), DEBIAN_NAMES[machine]))
        code.append(LinkedCode(name, component["license"], component.get("chosen", component["license"]), package,
                               version, source, source_version, architecture, copyright_file, path in linked))
    return sorted(code, key=lambda item: item.name.lower())


def bill_of_materials(code, version, machine, checksum, created):
    """An SPDX 2.3 document of the program."""
    name = f"uprobectl-{version}-linux-{machine}"
    packages = [{
        "SPDXID": "SPDXRef-uprobectl", "name": "uprobectl", "versionInfo": version,
        "packageFileName": "uprobectl", "primaryPackagePurpose": "APPLICATION",
        "downloadLocation": "NOASSERTION", "filesAnalyzed": False, "copyrightText": "Copyright the uprobectl authors",
        "licenseConcluded": "Apache-2.0 AND (BSD-2-Clause OR GPL-2.0-only)",
        "licenseDeclared": "Apache-2.0 AND (BSD-2-Clause OR GPL-2.0-only)",
        "checksums": [{"algorithm": "SHA256", "checksumValue": checksum}]}]
    relations = [("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-uprobectl")]
    for item in code:
        identifier = "SPDXRef-" + re.sub(r"[^A-Za-z0-9.]+", "-", item.name).strip("-")
        packages.append({
            "SPDXID": identifier, "name": item.name, "versionInfo": item.version,
            "primaryPackagePurpose": "LIBRARY", "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
            "sourceInfo": f"Debian package {item.package} {item.version}, "
                          f"of the source package {item.source} {item.source_version}",
            "copyrightText": "NOASSERTION", "licenseConcluded": item.chosen, "licenseDeclared": item.license,
            "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                              "referenceLocator": item.purl}]})
        relations.append(("SPDXRef-uprobectl", "STATIC_LINK" if item.is_linked else "CONTAINS", identifier))
    public_domain = (ROOT / "LICENSES/LicenseRef-xz-public-domain.txt").read_text()
    document = {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": name,
        # Unique to this program, and the same whenever it is made again.
        "documentNamespace": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, name + checksum)}",
        "creationInfo": {"created": created, "creators": ["Tool: uprobectl-tools-package"]},
        "packages": packages,
        "relationships": [{"spdxElementId": a, "relationshipType": kind, "relatedSpdxElement": b}
                          for a, kind, b in relations],
        "hasExtractedLicensingInfos": [{"licenseId": "LicenseRef-xz-public-domain", "extractedText": public_domain,
                                        "name": "public domain (XZ Utils)"}]}
    return json.dumps(document, indent=2) + "\n"
