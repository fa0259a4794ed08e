// A stack saved in a folder, to be unwound anywhere: regs.txt, stack*.data, maps.txt and the files
// that were mapped, gzipped or not, by base name. AOSP's libunwindstack has its test data in this
// layout.
#pragma once

#include "uprobectl/stacks.hpp"

namespace uprobectl::stacks {

// "NAME: HEX" lines. unsupported for registers of a machine whose stacks are not unwound; those
// that are not needed are passed over. `machine`: decides where names do not.
Result<Registers> parse_registers(std::string_view text, std::optional<elf::Machine> machine);

// Files of a folder by the base name of what is mapped, with ".gz" or without. "[vdso]" may be
// called "vdso.so". At most 512 MiB of a gzipped file are taken.
std::unique_ptr<FileSource> files_in(std::string folder);

struct SavedStack {
  Registers registers;
  std::vector<MemoryPiece> memory;
  std::vector<std::vector<std::byte>> bytes; // of the memory
  std::vector<Mapping> mappings;
};
Result<SavedStack> read_saved_stack(const std::string& folder);

} // namespace uprobectl::stacks
