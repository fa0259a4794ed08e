// SPDX-License-Identifier: Apache-2.0
// What an OatFile holds.
#pragma once

#include "art/dex_search.hpp"
#include "art/oat_format.hpp"
#include "art/oatdump.hpp"

namespace uprobectl::art {

struct OatFile::State {
  const elf::Image* image = nullptr;
  OatHeader header;
  CodeRange code;

  // Of each DEX file, by its number.
  std::vector<OatRecord> records;
  std::vector<std::optional<DexFile>> dex; // nothing: not found
  std::vector<std::shared_ptr<const void>> owners;
  std::vector<OatDex> shown;

  std::shared_ptr<const DumpedNames> dumped; // instead, and then there are no DEX files

  bool counts_methods = true;
  std::vector<Method> compiled; // by address
  CodeSizeForm code_size_form = CodeSizeForm::unknown;

  std::size_t found() const;
  OatClasses classes(std::size_t number) const {
    return {.header = header,
            .code = code,
            .dex = *dex[number],
            .offsets = records[number].class_offsets,
            .number = static_cast<std::uint16_t>(number),
            .counts_methods = counts_methods};
  }
  // Those at exactly this address.
  std::span<const Method> at(VirtualAddress address) const;
  // Bytes from the address to the next function, or to the end of the code.
  std::uint64_t gap_after(VirtualAddress address) const;
};

// Adds the DEX file of each record, found or not.
void find_dex_files(OatFile::State& state, DexFinder& finder);

// Chooses the form in which sizes make sense, by some of the methods.
CodeSizeForm choose_code_size_form(const OatFile::State& state);

} // namespace uprobectl::art
