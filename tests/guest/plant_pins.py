# SPDX-License-Identifier: Apache-2.0
"""Pins a list as `uprobectl load` makes it, with the names given: plant_pins.py LIST NAME…

A NAME is that of the pin of a program; FLAGS:NAME has other flags (src/bpf/pin_list.hpp, ListedFlag).
plant_pins.py --forget LIST NAME… takes the names out of a list that is pinned."""

import ctypes
import os
import platform
import struct
import sys

SYS_BPF = {"x86_64": 321, "aarch64": 280}[platform.machine()]
MAP_CREATE, MAP_UPDATE, MAP_DELETE, OBJ_PIN, OBJ_GET = 0, 2, 3, 6, 7
KEY_SIZE = 256
VALUE_SIZE = 268  # flags, number of the object, id, name
libc = ctypes.CDLL(None, use_errno=True)


def bpf(command, attributes):
    buffer = ctypes.create_string_buffer(attributes.ljust(128, b"\0"), 128)
    result = libc.syscall(SYS_BPF, command, buffer, 128)
    if result < 0:
        sys.exit(f"bpf({command}): {os.strerror(ctypes.get_errno())}")
    return result


def forget(path, names):
    text = ctypes.create_string_buffer(path.encode())
    hash_map = bpf(OBJ_GET, struct.pack("<Q", ctypes.addressof(text)))
    for name in names:
        key = ctypes.create_string_buffer(name.encode(), KEY_SIZE)
        bpf(MAP_DELETE, struct.pack("<IxxxxQ", hash_map, ctypes.addressof(key)))


def main():
    if sys.argv[1] == "--forget":
        return forget(sys.argv[2], sys.argv[3:])
    path, *names = sys.argv[1:]
    hash_map = bpf(MAP_CREATE, struct.pack("<IIII", 1, KEY_SIZE, VALUE_SIZE, 8))
    for name in names:
        flags, _, name = name.rpartition(":")
        value = ctypes.create_string_buffer(struct.pack("<III", int(flags or 0), 1, 0) + name.encode(), VALUE_SIZE)
        key = ctypes.create_string_buffer(name.encode(), KEY_SIZE)
        bpf(MAP_UPDATE, struct.pack("<IxxxxQQQ", hash_map, ctypes.addressof(key), ctypes.addressof(value), 0))
    text = ctypes.create_string_buffer(path.encode())
    bpf(OBJ_PIN, struct.pack("<QI", ctypes.addressof(text), hash_map))
    return None


if __name__ == "__main__":
    main()
