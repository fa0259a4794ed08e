// SPDX-License-Identifier: Apache-2.0
// Reads a stack that was saved in a folder, so that it can be unwound on another machine. The
// folder contains regs.txt, stack*.data, maps.txt and the mapped files by base name, each
// optionally gzipped. The test data of AOSP's libunwindstack has this layout.
#pragma once

#include "uprobectl/unwind.hpp"

#include <functional>

namespace uprobectl::unwind {

// Parses lines of the form "NAME: HEX" and skips registers that unwinding does not need. Fails with
// unsupported if stacks of the machine cannot be unwound. `machine` is called if the register names
// do not identify the machine; it may be empty.
using MachineLookup = std::function<std::optional<elf::Machine>()>;
Result<Registers> parse_registers(std::string_view text, const MachineLookup& machine);

// Whether the text contains the line "at_function_entry: 1", see UnwindLimits::at_function_entry.
bool was_at_function_entry(std::string_view text);

// Returns the machine of the first ELF file that is mapped executable. Opens each base name once.
std::optional<elf::Machine> find_machine(std::span<const process::Mapping> mappings,
                                         FileSource& files);

// Opens mapped files by base name in the folder, with or without ".gz"; "[vdso]" also as "vdso.so".
// A gzipped file may have 512 MiB when decompressed, all of them together `max_total` bytes.
constexpr std::uint64_t max_gzipped_bytes = std::uint64_t{1} << 30;
std::unique_ptr<FileSource> open_saved_files(std::string folder,
                                             std::uint64_t max_total = max_gzipped_bytes);

struct SavedStack {
  Registers registers;
  std::vector<MemoryPiece> memory;
  std::vector<std::shared_ptr<const void>> owners; // of the bytes in `memory`
  std::vector<process::Mapping> mappings;
  bool at_function_entry = false; // see UnwindLimits
};
// Reads the folder. A gzipped text or stack may have 16 MiB when decompressed, all stacks together
// 64 MiB.
Result<SavedStack> read_saved_stack(const std::string& folder);

} // namespace uprobectl::unwind
