// BTF type information as bytes, before libbpf sees it.
// Source: Linux Documentation/bpf/btf.rst; kernel/bpf/btf.c, btf_check_meta() and btf_resolve().
#pragma once

#include "uprobectl/util.hpp"

#include <functional>
#include <vector>

namespace uprobectl {

// What .BTF.ext refers to.
struct CheckedTypes {
  std::vector<std::uint32_t> kinds; // of each type id; 0 is void
  Bytes strings;

  bool has_string(std::uint32_t offset) const { return offset < strings.size(); }
  bool has_type(std::uint32_t id) const { return id < kinds.size(); }
  // Empty if there is none. The strings end with NUL.
  std::string_view string(std::uint32_t offset) const;
};

// The size of a section by its name; nothing if there is none.
using SectionSize = std::function<std::optional<std::uint64_t>(std::string_view name)>;

// Header, kinds, lengths, names, type ids, members inside their structures, variables inside their
// sections, and that no type contains itself. The result refers to the bytes.
Result<CheckedTypes> check_types(Bytes btf, const SectionSize& section_size);

// .BTF.ext: which functions, lines and fields of kernel structures instructions belong to.
Result<void> check_extended_types(Bytes btf_ext, const CheckedTypes& types,
                                  const SectionSize& section_size);

} // namespace uprobectl
