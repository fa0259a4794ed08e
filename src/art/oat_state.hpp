// SPDX-License-Identifier: Apache-2.0
// State of an OatFile: the parsed OAT file, and either its DEX files or the output of oatdump.
#pragma once

#include "art/dex_search.hpp"
#include "art/oat_format.hpp"
#include "uprobectl/art.hpp"

namespace uprobectl::art {

// "void com.foo.Bar.baz(int, long)". Returns nullopt if it is not a signature.
std::optional<Signature> parse_signature(std::string_view text);

// The output of the device's oatdump for an OAT file:
// `oatdump --oat-file=FILE --dump-method-and-offset-as-json` prints a line for each method (AOSP
// art/oatdump/oatdump.cc). A method is identified by its index in the listing.
class DumpedMethods {
public:
  explicit DumpedMethods(std::vector<DumpedMethod> methods);

  std::span<const DumpedMethod> methods() const { return methods_; }
  Signature signature(std::uint32_t method) const;
  std::optional<Class> find_class(std::string_view name) const;

  struct DumpedClass {
    std::string name;
    std::vector<std::uint32_t> methods;
  };
  std::span<const DumpedClass> classes() const { return classes_; } // by name

private:
  std::vector<DumpedMethod> methods_;
  std::vector<DumpedClass> classes_;
};

struct OatFile::State {
  const elf::Image* image = nullptr;
  OatHeader header;
  CodeRange code;

  // One element for each DEX file.
  std::vector<OatRecord> records;
  std::vector<std::optional<DexFile>> dex; // nullopt if not found
  std::vector<std::shared_ptr<const void>> owners;
  std::vector<OatDex> dex_infos;

  std::shared_ptr<const NameMapping> mapping;
  std::shared_ptr<const DumpedMethods> dumped; // replaces the DEX files if set

  bool counts_methods = true;
  std::vector<Method> compiled; // by address
  CodeSizeForm code_size_form = CodeSizeForm::unknown;

  std::size_t found_dex_count() const;
  OatClasses classes(std::size_t number) const {
    return {.header = header,
            .code = code,
            .dex = *dex[number],
            .offsets = records[number].class_offsets,
            .number = static_cast<std::uint16_t>(number),
            .counts_methods = counts_methods};
  }
  // The methods whose code begins at the address.
  std::span<const Method> methods_starting_at(VirtualAddress address) const;
  // Bytes from the address to the next function, or to the end of the code.
  std::uint64_t gap_after(VirtualAddress address) const;
};

// Searches the DEX file of each record and adds it to the state, found or not.
void find_dex_files(OatFile::State& state, DexFinder& finder);

// Chooses the form that gives plausible sizes for most of a sample of the methods.
CodeSizeForm choose_code_size_form(const OatFile::State& state);

// How many functions have a plausible size in the header before their code.
struct HeaderCounts {
  std::size_t functions = 0; // distinct code addresses
  std::size_t sized = 0;     // those with a plausible code size in the header

  bool nearly_all() const { return sized * 4 >= functions * 3; }
};
HeaderCounts count_headers(const OatFile& oat);

} // namespace uprobectl::art
