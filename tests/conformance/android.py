# SPDX-License-Identifier: Apache-2.0
"""Android libraries from npm packages, packed into an archive as an APK has them: stored, at a
multiple of 16 KiB. Where an entry's bytes lie is asked of Python's zipfile."""

import io
import json
import re
import shutil
import struct
import subprocess
import zipfile

from debian import Unavailable, run

# package -> the version whose libraries are known to have symbols
LIBRARY_PACKAGES = {
    "@nativescript/android": "9.1.1",
    "hermes-engine": "0.11.0",
    "jsc-android": "294992.0.0",
}


def elf_entries(archive, prefix=""):
    """Name and bytes of each library, also of those in archives inside (an AAR in a package)."""
    for info in archive.infolist():
        if info.filename.endswith(".so"):
            yield prefix + info.filename, archive.read(info)
        elif info.filename.endswith(".aar"):
            inner = zipfile.ZipFile(io.BytesIO(archive.read(info)))
            yield from elf_entries(inner, prefix + info.filename + "/")


def data_offset(path, info):
    """The local header has name and extra field lengths of its own (APPNOTE 4.3.7)."""
    with path.open("rb") as file:
        file.seek(info.header_offset + 26)
        name, extra = struct.unpack("<HH", file.read(4))
    return info.header_offset + 30 + name + extra


class AndroidLibraries:
    def __init__(self, cache, make_archive):
        self.cache = cache.resolve() / "android"
        self.make_archive = make_archive

    def of(self, package):
        """Each library: its name, a file with its bytes, the target to ask for, its data's offset."""
        archive, infos = self.archive(package, LIBRARY_PACKAGES[package])
        for info in infos:
            yield (info.filename, archive.parent / info.filename, f"{archive}!/{info.filename}",
                   data_offset(archive, info))

    def archive(self, package, version):
        """An archive of the libraries, which are unpacked beside it, and its entries."""
        folder = self.cache / f"{package.strip('@').replace('/', '-')}_{version}"
        if not folder.exists():
            self._unpack(f"{package}@{version}", folder)
        archive = folder / "libraries.apk"
        return archive, zipfile.ZipFile(archive).infolist()

    def _unpack(self, package, folder):
        if not shutil.which("npm"):
            raise Unavailable("no npm on this machine")
        draft = folder.with_name(folder.name + ".draft")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        run(["npm", "pack", "--silent", "--ignore-scripts", "--fetch-retries=1", package], cwd=draft)
        (packed,) = draft.glob("*.tgz")
        shutil.unpack_archive(packed, draft, filter="data")
        packed.unlink()
        entries = []
        for name, data in self._libraries(draft / "package"):
            file = draft / "lib" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
            entries.append({"name": f"lib/{name}", "file": f"lib/{name}", "align": 16384})
        if not entries:
            raise Unavailable(f"{package} has no libraries")
        (draft / "entries.json").write_text(json.dumps(entries))
        subprocess.run([self.make_archive, draft / "entries.json", draft / "libraries.apk"], check=True)
        shutil.rmtree(draft / "package")
        draft.rename(folder)

    def _libraries(self, package):
        for file in sorted(package.rglob("*")):
            if file.suffix == ".so":
                yield str(file.relative_to(package)), file.read_bytes()
            elif file.suffix == ".aar":
                # Without its version, so that libraries of two versions have one name.
                name = re.sub(r"-r?[0-9.]+$", "", file.stem)
                yield from elf_entries(zipfile.ZipFile(file), name + "/")
