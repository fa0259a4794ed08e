"""Gets a Debian kernel (and busybox) through apt, unpacked but never installed."""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from . import GuestError

META_PACKAGES = {"6.1": "linux-image-{arch}", "6.12": "linux-image-6.12-{arch}"}


def fetch_kernel(arch: str, series: str, cache: Path) -> Path:
    """The path of a vmlinuz of that series, downloaded once per package version."""
    folder = cache / f"{arch}-{series}"
    try:
        package = _image_package(_name_for_apt(META_PACKAGES[series].format(arch=arch), arch))
        version = _candidate_version(package)
        wanted = {"vmlinuz": "boot/vmlinuz-*", "config": "boot/config-*"}
        return _unpack(package, folder / version, wanted) / "vmlinuz"
    except GuestError as error:
        cached = sorted(folder.glob("*/vmlinuz"), key=lambda path: path.stat().st_mtime)
        if not cached:
            raise
        print(f"guest: {error}; using the cached {cached[-1]}", file=sys.stderr)
        return cached[-1]


def fetch_busybox(arch: str, cache: Path) -> Path:
    package = _name_for_apt("busybox-static", arch)
    folder = cache / f"{arch}-busybox" / _candidate_version(package).replace(":", "%3a")
    return _unpack(package, folder, {"busybox": "bin/busybox"}) / "busybox"


def _name_for_apt(package: str, arch: str) -> str:
    """Foreign packages carry their architecture, which dpkg has to know before apt does."""
    if arch == _run("dpkg", "--print-architecture").strip():
        return package
    if arch not in _run("dpkg", "--print-foreign-architectures").split():
        print(
            f"guest: dpkg does not know {arch} yet: running 'dpkg --add-architecture {arch}'"
            " and 'apt-get update'",
            file=sys.stderr,
        )
        _run("dpkg", "--add-architecture", arch)
        _run("apt-get", "update")
    return f"{package}:{arch}"


def _image_package(meta_package: str) -> str:
    """linux-image-amd64 is empty; the kernel is in the package it depends on."""
    try:
        listing = _run("apt-cache", "depends", meta_package)
    except GuestError as error:
        raise GuestError(
            f"apt knows no package '{meta_package}': its lists are missing or old,"
            " run 'apt-get update'"
        ) from error
    found = re.search(r"^\s*\|?Depends: <?(linux-image-[^\s>]+)", listing, re.MULTILINE)
    if not found:
        raise GuestError(f"'{meta_package}' depends on no kernel image package")
    return found[1]


def _candidate_version(package: str) -> str:
    try:
        record = _run("apt-cache", "show", "--no-all-versions", package)
    except GuestError as error:
        raise GuestError(
            f"apt has no package '{package}': its lists are missing or old, run 'apt-get update'"
        ) from error
    found = re.search(r"^Version: (\S+)", record, re.MULTILINE)
    if not found:
        raise GuestError(f"apt tells no version of '{package}'")
    return found[1]


def _unpack(package: str, folder: Path, wanted: dict[str, str]) -> Path:
    """Leaves the wanted files (name in the cache: pattern in the package) in `folder`."""
    if all((folder / name).exists() for name in wanted):
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".unpack-") as scratch_name:
        scratch = Path(scratch_name)
        _run("apt-get", "download", package, cwd=scratch)
        archive = next(scratch.glob("*.deb"), None)
        if archive is None:
            raise GuestError(f"apt-get downloaded no file for '{package}'")
        _run("dpkg", "-x", str(archive), str(scratch / "tree"))
        kept = scratch / "kept"
        kept.mkdir()
        for name, pattern in wanted.items():
            source = next((scratch / "tree").glob(pattern), None)
            if source is None:
                raise GuestError(f"'{package}' has no {pattern}")
            shutil.copyfile(source, kept / name)
            shutil.copymode(source, kept / name)
        # One rename at the end: two runs at once, or one killed, never leave half a kernel.
        shutil.rmtree(folder, ignore_errors=True)
        kept.rename(folder)
    return folder


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
