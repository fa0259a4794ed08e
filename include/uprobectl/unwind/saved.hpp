// SPDX-License-Identifier: Apache-2.0
// A stack saved in a folder, to be unwound anywhere: regs.txt, stack*.data, maps.txt and the files
// that were mapped, gzipped or not, by base name. AOSP's libunwindstack has its test data in this
// layout.
#pragma once

#include "uprobectl/unwind.hpp"

#include <functional>

namespace uprobectl::unwind {

// "NAME: HEX" lines. unsupported for registers of a machine whose stacks are not unwound; those
// that are not needed are passed over. `machine`: asked where names do not tell; may be empty.
using MachineQuestion = std::function<std::optional<elf::Machine>()>;
Result<Registers> parse_registers(std::string_view text, const MachineQuestion& machine);

// Whether the line "at_function_entry: 1" is among them, which is no register: the thread had just
// entered the function it was in.
bool was_at_function_entry(std::string_view text);

// That of the first file mapped executable that says. No base name is opened twice.
std::optional<elf::Machine> machine_of(std::span<const Mapping> mappings, FileSource& files);

// Files of a folder by the base name of what is mapped, with ".gz" or without. "[vdso]" may be
// called "vdso.so". At most 512 MiB of a gzipped file are taken, and of all together so many bytes.
constexpr std::uint64_t max_gzipped_bytes = std::uint64_t{1} << 30;
std::unique_ptr<FileSource> files_in(std::string folder,
                                     std::uint64_t max_batch = max_gzipped_bytes);

struct SavedStack {
  Registers registers;
  std::vector<MemoryPiece> memory;
  std::vector<std::shared_ptr<const void>> owners; // of the memory's bytes
  std::vector<Mapping> mappings;
  bool at_function_entry = false; // as UnwindLimits has it
};
// Of a gzipped text or stack at most 16 MiB are taken, of all such stacks together 64 MiB.
Result<SavedStack> read_saved_stack(const std::string& folder);

} // namespace uprobectl::unwind
