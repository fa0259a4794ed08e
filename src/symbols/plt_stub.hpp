// What a linker puts into a PLT: a few instructions that jump to the address in a GOT slot. Only
// these shapes are decoded; what else the bytes may be is not asked.
#pragma once

#include "uprobectl/elf.hpp"

namespace uprobectl {

struct PltStub {
  VirtualAddress address; // where callers enter it
  std::uint64_t size = 0; // bytes
  VirtualAddress slot;
};

// Code as it lies in memory.
struct CodeBytes {
  Bytes bytes;
  VirtualAddress address;
};

// Every stub-like sequence in the code, by address. got: DT_PLTGOT, for i386. x86-64 and i386
// (GNU ld, lld, mold; with and without IBT and bnd), arm64 (with and without BTI and PAC), arm
// (A32).
std::vector<PltStub> find_plt_stubs(const elf::Machine& machine, const CodeBytes& code,
                                    std::optional<VirtualAddress> got);

bool has_plt_decoder(const elf::Machine& machine);

} // namespace uprobectl
