// SPDX-License-Identifier: Apache-2.0
// PLT entries: stubs of a few instructions that a linker generates, which jump to the address in a
// GOT slot. Only the known stub forms are decoded. An entry is named after the symbol of its slot.
#pragma once

#include "uprobectl/symbols.hpp"

namespace uprobectl::symbols {

// Code with the form of a PLT entry.
struct PltStub {
  VirtualAddress address; // where callers enter it
  std::uint64_t size = 0; // bytes
  VirtualAddress slot;    // the GOT entry that it jumps through
};

// Code and its ELF address.
struct CodeBytes {
  Bytes bytes;
  VirtualAddress address;
};

// Finds all stubs in the code, by address. `got` is DT_PLTGOT, needed for i386.
// Supports x86-64 and i386 (GNU ld, lld, mold; with and without IBT and bnd), arm64 (with and
// without BTI and PAC), arm (A32).
std::vector<PltStub> find_plt_stubs(const elf::Machine& machine, const CodeBytes& code,
                                    std::optional<VirtualAddress> got);

bool has_plt_decoder(const elf::Machine& machine);

// A stub whose slot has a relocation.
struct PltEntry {
  VirtualAddress address;   // where callers enter it
  std::uint16_t size = 0;   // bytes
  std::uint32_t symbol = 0; // index in .dynsym of the slot's symbol
};

// Returns the entries by address. See plt_entries() in symbols.hpp.
std::vector<PltEntry> find_plt_entries(const elf::Image& image);
// Returns the entry as a symbol, given the symbol of its slot.
elf::Symbol plt_symbol(elf::Symbol symbol, const PltEntry& entry);

// Returns the entry that covers the address. Decodes only the surrounding bytes.
std::optional<elf::Symbol> plt_entry_at(const elf::Image& image, VirtualAddress address);

} // namespace uprobectl::symbols
