# SPDX-License-Identifier: Apache-2.0
"""From address to file offset by the program headers alone, and which sections hold code, read here
without any ELF library: System V gABI, chapters 5 and 4."""

import struct
from dataclasses import dataclass

PT_LOAD, PF_X = 1, 1
SHF_EXECINSTR = 4
SHT_NOBITS = 8
EM_ARM, EM_AARCH64, EM_RISCV = 40, 183, 243


@dataclass(frozen=True)
class Load:
    address: int
    offset: int
    file_size: int
    executable: bool


class Segments:
    def __init__(self, data):
        if data[:4] != b"\x7fELF":
            raise ValueError("no ELF file")
        wide = data[4] == 2
        order = "<" if data[5] == 1 else ">"
        self.word_mask = (1 << (64 if wide else 32)) - 1
        self.machine, = struct.unpack_from(order + "H", data, 18)
        # e_phoff, then e_phentsize and e_phnum.
        table, = struct.unpack_from(order + ("Q" if wide else "I"), data, 32 if wide else 28)
        entry_size, count = struct.unpack_from(order + "HH", data, 54 if wide else 42)
        self.loads = []
        for number in range(count):
            at = table + number * entry_size
            if wide:
                kind, flags, offset, address, _, size = struct.unpack_from(order + "IIQQQQ", data, at)
            else:
                kind, offset, address, _, size, _, flags = struct.unpack_from(order + "7I", data, at)
            if kind == PT_LOAD:
                self.loads.append(Load(address, offset, size, bool(flags & PF_X)))

        self.code_sections = self._read_sections(data, order, wide)
        self.section_addresses = self._read_section_addresses(data, order, wide)

    @staticmethod
    def _read_sections(data, order, wide):
        """By section index: whether its flags say that it holds code."""
        table, = struct.unpack_from(order + ("Q" if wide else "I"), data, 40 if wide else 32)
        size, count = struct.unpack_from(order + "HH", data, 58 if wide else 46)
        flags = order + ("Q" if wide else "I")
        return [bool(struct.unpack_from(flags, data, table + size * i + 8)[0] & SHF_EXECINSTR)
                for i in range(count)]

    @staticmethod
    def _read_section_addresses(data, order, wide):
        """By name: the sh_addr of its first section with bytes in the file."""
        table, = struct.unpack_from(order + ("Q" if wide else "I"), data, 40 if wide else 32)
        size, count, names = struct.unpack_from(order + "HHH", data, 58 if wide else 46)
        layout = order + ("IIQQQ" if wide else "IIIII")  # sh_name sh_type sh_flags sh_addr sh_offset
        headers = [struct.unpack_from(layout, data, table + size * i) for i in range(count)]
        addresses = {}
        for name, kind, _, address, _ in headers:
            if count and kind != SHT_NOBITS:
                begin = headers[names][4] + name
                addresses.setdefault(data[begin:data.index(b"\0", begin)].decode(), address)
        return addresses

    def is_data_section(self, text):
        """The section as readelf writes it: an index, or a word for what is no section."""
        return text.isdigit() and int(text) < len(self.code_sections) and not self.code_sections[int(text)]

    def offset(self, address):
        """Where the file has the byte at the address; None where it has none."""
        for load in self.loads:
            if load.address <= address < load.address + load.file_size:
                return address - load.address + load.offset
        return None

    def executable_offset(self, address):
        """Where the kernel would have to write a breakpoint; None where the file has no code."""
        for load in self.loads:
            if load.executable and load.address <= address < load.address + load.file_size:
                return address - load.address + load.offset
        return None
