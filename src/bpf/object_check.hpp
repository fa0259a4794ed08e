// SPDX-License-Identifier: Apache-2.0
// Validates a BPF object before it is passed to libbpf, which trusts the types in an object and
// crashes on some that are damaged. Source: Linux Documentation/bpf/btf.rst; kernel/bpf/btf.c,
// btf_check_meta() and btf_resolve().
#pragma once

#include "uprobectl/util.hpp"

#include <functional>
#include <string>
#include <vector>

namespace uprobectl::bpf {

// The types and strings that .BTF.ext refers to.
struct CheckedTypes {
  std::vector<std::uint32_t> kinds; // of each type id; 0 is void
  Bytes strings;

  bool has_string(std::uint32_t offset) const { return offset < strings.size(); }
  bool has_type(std::uint32_t id) const { return id < kinds.size(); }
  // Returns the string at an offset; empty if the offset is invalid.
  std::string_view string(std::uint32_t offset) const;
};

// Returns the size of a section by its name; nullopt if there is no such section.
using SectionSize = std::function<std::optional<std::uint64_t>(std::string_view name)>;

// Checks the header, kinds, lengths, names and type ids, that members are inside their structures
// and variables inside their sections, and that no type contains itself. The result borrows the
// bytes.
Result<CheckedTypes> check_types(Bytes btf, const SectionSize& section_size);

// Checks .BTF.ext: the functions, lines and relocations of instructions.
Result<void> check_extended_types(Bytes btf_ext, const CheckedTypes& types,
                                  const SectionSize& section_size);

// Checks .BTF and .BTF.ext as the kernel would, and the symbols, relocations and section headers
// that libbpf follows. `corrupt` names the first fault. Succeeds for files that are not 64-bit
// little-endian ELF objects of BPF, which libbpf rejects.
Result<void> check_bpf_object(Bytes file);

// Returns the BTF of a file that is BTF, or an ELF file with a section .BTF, after checking it. The
// result borrows the bytes.
Result<Bytes> find_types(Bytes file);

// Returns the names of the functions that relocations of ".maps" refer to: programs in the initial
// values of maps. Empty if the file is not valid.
std::vector<std::string> list_map_programs(Bytes file);

} // namespace uprobectl::bpf
