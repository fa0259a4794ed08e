#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what is not zero in the tables that src/cli/startup.ld leaves out of the program:
packed_tables.py STARTUP_LD LLVM_LIBDIR OUT. For each run of other bytes: the number of zeros before it and its
size, 4 bytes each, little endian, then the bytes. The last run is empty, and ends the tables."""
import re
import struct
import sys
from pathlib import Path

MIN_GAP = 16  # fewer zeros cost less as a part of a run


def object_files(archive):
    """The members of an ar archive whose content is an ELF object."""
    at = 8  # the magic "!<arch>\n"
    while at < len(archive):
        size = int(archive[at + 48:at + 58])
        content = archive[at + 60:at + 60 + size]
        if content.startswith(b"\x7fELF"):
            yield content
        at += 60 + size + size % 2


def sections(elf):
    """The name, the alignment and the content of each section of a 64-bit, little-endian object; None as content
    if it has relocations."""
    table, = struct.unpack_from("<Q", elf, 0x28)
    entry_size, count, names_index = struct.unpack_from("<HHH", elf, 0x3a)
    assert count and names_index, "extended numbering of sections"
    headers = [struct.unpack_from("<IIQQQQIIQQ", elf, table + index * entry_size) for index in range(count)]
    names_offset = headers[names_index][4]
    relocated = {header[7] for header in headers if header[1] in (4, 9)}  # SHT_RELA, SHT_REL
    for index, (name, kind, _, _, offset, size, _, _, alignment, _) in enumerate(headers):
        begin = names_offset + name
        content = None if index in relocated or kind != 1 else elf[offset:offset + size]  # SHT_PROGBITS
        yield elf[begin:elf.index(b"\0", begin)].decode(), alignment, content


def pack(data):
    runs = re.compile(rb"[^\0](?:\0{0,%d}[^\0])*" % (MIN_GAP - 1), re.S)
    packed, end = b"", 0
    for run in runs.finditer(data):
        packed += struct.pack("<II", run.start() - end, len(run[0])) + run[0]
        end = run.end()
    return packed + struct.pack("<II", len(data) - end, 0)


def main():
    script, libraries, out = map(Path, sys.argv[1:])
    listed = re.search(r"uprobectl_packed_begin = .*?uprobectl_packed_end", script.read_text(), re.S)[0]
    data = b""
    for library, name in re.findall(r"\*(\w+\.a):\*\((\S+)\)", listed):
        found = [(alignment, content) for elf in object_files((libraries / library).read_bytes())
                 for section, alignment, content in sections(elf) if section == name]
        if len(found) != 1 or found[0][1] is None:
            sys.exit(f"packed_tables.py: {library} does not have one section {name} without relocations")
        alignment, content = found[0]
        data += bytes(-len(data) % alignment) + content
    out.write_bytes(pack(data))


if __name__ == "__main__":
    main()
