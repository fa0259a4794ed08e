# SPDX-License-Identifier: Apache-2.0
"""Writes an initramfs: a cpio archive of the "newc" kind.

Format: Documentation/driver-api/early-userspace/buffer-format.rst of the Linux kernel.
"""

import posixpath
import stat
from pathlib import Path

# The kernel opens /dev/console for init before anything is mounted: major 5, minor 1.
CONSOLE_DEVICE = (5, 1)


class Initramfs:
    """Collects files; parent folders are made on the way."""

    def __init__(self) -> None:
        self._records: list[bytes] = []
        self._paths: set[str] = set()

    def add_folder(self, path: str) -> None:
        self._add(path, stat.S_IFDIR | 0o755)

    def add_bytes(self, path: str, data: bytes, executable: bool = False) -> None:
        self._add(path, stat.S_IFREG | (0o755 if executable else 0o644), data)

    def add_file(self, path: str, source: Path) -> None:
        executable = bool(source.stat().st_mode & 0o100)
        self.add_bytes(path, source.read_bytes(), executable)

    def add_console(self) -> None:
        self._add("dev/console", stat.S_IFCHR | 0o600, device=CONSOLE_DEVICE)

    def pack(self) -> bytes:
        trailer = self._record(len(self._records) + 1, "TRAILER!!!", 0, b"", (0, 0))
        # Not compressed: this takes seconds here, and unpacking it takes more in the emulated guest.
        return b"".join(self._records) + trailer

    def _add(
        self, path: str, mode: int, data: bytes = b"", device: tuple[int, int] = (0, 0)
    ) -> None:
        path = posixpath.normpath(path).strip("/")
        if path in self._paths or path in ("", "."):
            return
        self.add_folder(posixpath.dirname(path))
        self._paths.add(path)
        self._records.append(self._record(len(self._records) + 1, path, mode, data, device))

    @staticmethod
    def _record(inode: int, path: str, mode: int, data: bytes, device: tuple[int, int]) -> bytes:
        name = path.encode() + b"\0"
        links = 2 if stat.S_ISDIR(mode) else 1
        # ino mode uid gid nlink mtime filesize devmajor devminor rdevmajor rdevminor namesize check
        fields = (inode, mode, 0, 0, links, 0, len(data), 0, 0, *device, len(name), 0)
        header = b"070701" + b"".join(b"%08X" % field for field in fields) + name
        return _padded(header) + _padded(data)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)
