"""From address to file offset by the program headers alone, and which sections hold code, read here
without any ELF library: System V gABI, chapters 5 and 4."""

import struct
from dataclasses import dataclass

PT_LOAD, PF_X = 1, 1
SHF_EXECINSTR = 4
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

    @staticmethod
    def _read_sections(data, order, wide):
        """By section index: whether its flags say that it holds code."""
        table, = struct.unpack_from(order + ("Q" if wide else "I"), data, 40 if wide else 32)
        size, count = struct.unpack_from(order + "HH", data, 58 if wide else 46)
        flags = order + ("Q" if wide else "I")
        return [bool(struct.unpack_from(flags, data, table + size * i + 8)[0] & SHF_EXECINSTR)
                for i in range(count)]

    def is_data_section(self, text):
        """The section as readelf writes it: an index, or a word for what is no section."""
        return text.isdigit() and int(text) < len(self.code_sections) and not self.code_sections[int(text)]

    def executable_offset(self, address):
        """Where the kernel would have to write a breakpoint; None where the file has no code."""
        for load in self.loads:
            if load.executable and load.address <= address < load.address + load.file_size:
                return address - load.address + load.offset
        return None
