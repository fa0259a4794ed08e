# SPDX-License-Identifier: Apache-2.0
"""Pins a list as `uprobectl load` makes it, with the names given: plant_pins.py LIST NAME…"""

import ctypes
import os
import platform
import struct
import sys

SYS_BPF = {"x86_64": 321, "aarch64": 280}[platform.machine()]
MAP_CREATE, MAP_UPDATE, OBJ_PIN = 0, 2, 6
KEY_SIZE = 64
libc = ctypes.CDLL(None, use_errno=True)


def bpf(command, attributes):
    buffer = ctypes.create_string_buffer(attributes.ljust(128, b"\0"), 128)
    result = libc.syscall(SYS_BPF, command, buffer, 128)
    if result < 0:
        sys.exit(f"bpf({command}): {os.strerror(ctypes.get_errno())}")
    return result


def main():
    path, *names = sys.argv[1:]
    hash_map = bpf(MAP_CREATE, struct.pack("<IIII", 1, KEY_SIZE, 4, 8))
    value = ctypes.create_string_buffer(4)
    for name in names:
        key = ctypes.create_string_buffer(name.encode(), KEY_SIZE)
        bpf(MAP_UPDATE, struct.pack("<IxxxxQQQ", hash_map, ctypes.addressof(key), ctypes.addressof(value), 0))
    text = ctypes.create_string_buffer(path.encode())
    bpf(OBJ_PIN, struct.pack("<QI", ctypes.addressof(text), hash_map))


if __name__ == "__main__":
    main()
