# SPDX-License-Identifier: Apache-2.0
"""Gets a Debian kernel (and busybox) through apt, unpacked but never installed."""

import contextlib
import fcntl
import lzma
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

from foreign_apt import Unavailable, configuration

from . import GuestError

META_PACKAGES = {"6.1": "linux-image-{arch}", "6.12": "linux-image-6.12-{arch}"}
NETWORK_MODULE = "e1000.ko"  # depends on no other module


class Apt:
    """apt as it knows one architecture: this machine's own, or one with lists in the cache."""

    def __init__(self, arch: str, cache: Path) -> None:
        self._options: list[str] = []
        if arch == _run("dpkg", "--print-architecture").strip():
            return
        try:
            self._options = ["-c", str(configuration(cache, arch))]
        except Unavailable as error:
            raise GuestError(f"no packages for {arch}: {error}") from error

    def image_package(self, meta_package: str) -> str:
        """linux-image-amd64 is empty; the kernel is in the package it depends on."""
        listing = self._ask("depends", meta_package)
        found = re.search(r"^\s*\|?Depends: <?(linux-image-[^\s>]+)", listing, re.MULTILINE)
        if not found:
            raise GuestError(f"'{meta_package}' depends on no kernel image package")
        return found[1]

    def candidate_version(self, package: str) -> str:
        return self.candidate_versions([package])[0]

    def candidate_versions(self, packages: list[str]) -> list[str]:
        records = self._ask("show", "--no-all-versions", *packages)
        found = dict(re.findall(r"^Package: (\S+)$.*?^Version: (\S+)$", records, re.MULTILINE | re.DOTALL))
        missing = next((package for package in packages if package not in found), None)
        if missing:
            raise GuestError(f"apt tells no version of '{missing}'")
        return [found[package] for package in packages]

    def download(self, package: str, folder: Path) -> Path:
        _run("apt-get", *self._options, "download", package, cwd=folder)
        archive = next(folder.glob("*.deb"), None)
        if archive is None:
            raise GuestError(f"apt-get downloaded no file for '{package}'")
        return archive

    def _ask(self, *question: str) -> str:
        try:
            return _run("apt-cache", *self._options, *question)
        except GuestError as error:
            raise GuestError(
                f"apt has no package '{question[-1]}': its lists are missing or old,"
                " run 'apt-get update'"
            ) from error


@contextlib.contextmanager
def _alone(cache: Path) -> Iterator[None]:
    """Two guests that start together share one apt configuration, and want the same packages."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def fetch_kernel(arch: str, series: str, cache: Path) -> Path:
    """The path of a vmlinuz of that series, downloaded once per package version. Beside it is the module
    of the network card that QEMU emulates (NETWORK_MODULE)."""
    with _alone(cache):
        return _fetch_kernel(arch, series, cache)


def _fetch_kernel(arch: str, series: str, cache: Path) -> Path:
    folder = cache / f"{arch}-{series}"
    try:
        apt = Apt(arch, cache)
        package = apt.image_package(META_PACKAGES[series].format(arch=arch))
        drivers = f"lib/modules/{package.removeprefix('linux-image-')}/kernel/drivers"
        wanted = {"vmlinuz": "boot/vmlinuz-", "config": "boot/config-",
                  NETWORK_MODULE: f"{drivers}/net/ethernet/intel/e1000/{NETWORK_MODULE}"}
        return _unpack(apt, package, folder / apt.candidate_version(package), wanted) / "vmlinuz"
    except GuestError as error:
        return _cached(folder, "vmlinuz", error)


def fetch_busybox(arch: str, cache: Path) -> Path:
    with _alone(cache):
        folder = cache / f"{arch}-busybox"
        try:
            apt = Apt(arch, cache)
            version = apt.candidate_version("busybox-static").replace(":", "%3a")
            wanted = {"busybox": "bin/busybox"}
            return _unpack(apt, "busybox-static", folder / version, wanted) / "busybox"
        except GuestError as error:
            return _cached(folder, "busybox", error)


def fetch_packages(arch: str, packages: list[str], cache: Path) -> Path:
    """A folder with all files of the packages, as they would be installed."""
    with _alone(cache):
        folder = cache / f"{arch}-packages"
        folder.mkdir(exist_ok=True)
        apt = Apt(arch, cache)
        tree = folder / "_".join(apt.candidate_versions(packages)).replace(":", "%3a")
        if tree.exists():
            return tree
        with tempfile.TemporaryDirectory(dir=folder, prefix=".unpack-") as scratch_name:
            scratch = Path(scratch_name)
            for package in packages:
                archive = apt.download(package, scratch)
                _run("dpkg-deb", "-x", str(archive), str(scratch / "tree"))
                archive.unlink()
            (scratch / "tree").rename(tree)
        return tree


def _cached(folder: Path, name: str, error: GuestError) -> Path:
    """The newest that an earlier run has left there, where apt has none to give."""
    found = sorted(folder.glob(f"*/{name}"), key=lambda path: path.stat().st_mtime)
    if not found:
        raise error
    print(f"guest: {error}; using the cached {found[-1]}", file=sys.stderr)
    return found[-1]


def _unpack(apt: Apt, package: str, folder: Path, wanted: dict[str, str]) -> Path:
    """Leaves the wanted files (name in the cache: how its path in the package begins) in `folder`."""
    if all((folder / name).exists() for name in wanted):
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".unpack-") as scratch_name:
        scratch = Path(scratch_name)
        kept = scratch / "kept"
        kept.mkdir()
        missing = _extract(apt.download(package, scratch), wanted, kept)
        if missing:
            raise GuestError(f"'{package}' has no {next(iter(missing.values()))}*")
        # One rename at the end: two runs at once, or one killed, never leave half a kernel.
        shutil.rmtree(folder, ignore_errors=True)
        kept.rename(folder)
    return folder


def _extract(archive: Path, wanted: dict[str, str], folder: Path) -> dict[str, str]:
    """Takes the files out of a package; those it lacks come back. A kernel is among the first of the
    300 MB in its package: the rest is not decompressed."""
    left = dict(wanted)
    with subprocess.Popen(
        ["dpkg-deb", "--fsys-tarfile", archive], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as unpacker:
        with tarfile.open(fileobj=unpacker.stdout, mode="r|") as contents:
            for member in contents:
                path = member.name.removeprefix("./")
                name = next((n for n, begin in left.items() if path.startswith(begin)), None)
                source = contents.extractfile(member) if name and member.isfile() else None
                if name is None or source is None:
                    continue
                unpacked = lzma.open(source) if path.endswith(".xz") else source
                with (folder / name).open("wb") as target:
                    shutil.copyfileobj(unpacked, target)
                (folder / name).chmod(member.mode)
                del left[name]
                if not left:
                    break
        unpacker.kill()
    return left


def _run(*command: str, cwd: Path | None = None) -> str:
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise GuestError(f"no program '{command[0]}' here: kernels come from apt") from error
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        reason = said[-1] if said else f"exit status {done.returncode}"
        raise GuestError(f"'{' '.join(command)}' failed: {reason}")
    return done.stdout
