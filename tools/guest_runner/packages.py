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

OWN = ""  # this machine's release, with its updates
BACKPORTS = ("trixie-backports", "sid")
# The releases of Debian that have kernels of a series, the preferred one first.
RELEASES = {"5.10": ("bullseye",), "6.1": (OWN, "bookworm"), "6.12": (OWN, "trixie"),
            **dict.fromkeys(("6.16", "6.17", "6.18", "6.19", "7.0", "7.1", "7.2", "7.3"), BACKPORTS)}
NEWEST = "newest"  # the highest series that can be had, also one that is not in the table
SERIES = (*RELEASES, NEWEST)
NETWORK_MODULE = "e1000.ko"  # depends on no other module
NETWORK_SERIES = ("6.1", "6.12")  # those that adb_guests.py boots


class Apt:
    """apt as it knows one architecture and release: this machine's own, or one with lists in the cache."""

    def __init__(self, arch: str, cache: Path, release: str = OWN) -> None:
        self._options: list[str] = []
        if release == OWN and arch == _run("dpkg", "--print-architecture").strip():
            return
        try:
            self._options = ["-c", str(configuration(cache, arch, release))]
        except Unavailable as error:
            name = " of ".join(filter(None, [arch, release]))
            raise GuestError(f"no packages for {name}: {error}") from error

    def kernel_releases(self, arch: str) -> list[tuple[tuple[int, ...], str]]:
        """Kernels with Debian's usual configuration, oldest first: numbers, and the name that uname prints."""
        listing = self._ask("search", "--names-only", rf"^linux-image-[0-9.+deb-]+-{arch}$")
        names = [line.split()[0].removeprefix("linux-image-") for line in listing.splitlines()]
        # "6.12-amd64" has no kernel of its own, it depends on the newest one.
        return sorted((_numbers(name), name) for name in names if re.match(r"\d+\.\d+\.", name))

    def dependencies(self, package: str) -> list[str]:
        return re.findall(r"^\s*\|?Depends: <?([^\s>]+)", self._ask("depends", package), re.MULTILINE)

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
    """The path of a vmlinuz of that series, downloaded once per package version. For
    NETWORK_SERIES the module of the network card that QEMU emulates is beside it."""
    with _alone(cache):
        if series == NEWEST:
            series = _newest_series(arch, cache)
        errors = []
        for release in RELEASES.get(series, BACKPORTS):
            try:
                return _fetch_kernel(Apt(arch, cache, release), arch, series, cache)
            except GuestError as error:
                errors.append(error)
        return _cached(cache / f"{arch}-{series}", "vmlinuz", errors[0])


def _newest_series(arch: str, cache: Path) -> str:
    found, errors = [], []
    for release in BACKPORTS:
        try:
            found += Apt(arch, cache, release).kernel_releases(arch)
        except GuestError as error:
            errors.append(error)
    kept = cache.glob(f"{arch}-[0-9]*.[0-9]*/*/vmlinuz")
    found += [(_numbers(name), name) for name in (path.parent.parent.name.removeprefix(f"{arch}-") for path in kept)]
    if not found:
        raise errors[0] if errors else GuestError(f"Debian's archive has no kernel for {arch}")
    return ".".join(map(str, max(found)[0][:2]))


def _numbers(release: str) -> tuple[int, ...]:
    """(6, 18, 15, 13) of 6.18.15+deb13-amd64"""
    return tuple(int(digits) for digits in re.findall(r"\d+", release.removesuffix("-amd64").removesuffix("-arm64")))


def _fetch_kernel(apt: Apt, arch: str, series: str, cache: Path) -> Path:
    of_series = [name for number, name in apt.kernel_releases(arch) if number[:2] == _numbers(series)]
    if not of_series:
        raise GuestError(f"Debian's archive has no Linux {series} for {arch}")
    release = of_series[-1]
    package = f"linux-image-{release}"
    version = apt.candidate_version(package)
    modules = rf"(usr/)?lib/modules/{re.escape(release)}"
    wanted = {"vmlinuz": rf"(boot/vmlinuz-|{modules}/vmlinuz$)"}
    if series in NETWORK_SERIES:
        wanted[NETWORK_MODULE] = f"{modules}/kernel/drivers/net/ethernet/intel/e1000/{NETWORK_MODULE}"
    # Since Linux 6.19 the image package is empty and depends on one that has the kernel.
    binary = f"linux-binary-{release}"
    if binary in apt.dependencies(package):
        package = binary
    return _unpack(apt, package, wanted, cache / f"{arch}-{series}" / version) / "vmlinuz"


def fetch_busybox(arch: str, cache: Path) -> Path:
    with _alone(cache):
        folder = cache / f"{arch}-busybox"
        try:
            apt = Apt(arch, cache)
            version = apt.candidate_version("busybox-static").replace(":", "%3a")
            wanted = {"busybox": r"(usr/)?bin/busybox$"}
            return _unpack(apt, "busybox-static", wanted, folder / version) / "busybox"
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


def _unpack(apt: Apt, package: str, wanted: dict[str, str], folder: Path) -> Path:
    """Leaves the wanted files (name in the cache: pattern of its path in the package) in `folder`."""
    if all((folder / name).exists() for name in wanted):
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".unpack-") as scratch_name:
        scratch = Path(scratch_name)
        kept = scratch / "kept"
        kept.mkdir()
        missing = _extract(apt.download(package, scratch), wanted, kept)
        if missing:
            raise GuestError(f"'{package}' has no file {', '.join(missing)}")
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
                name = next((n for n, pattern in left.items() if re.match(pattern, path)), None)
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
