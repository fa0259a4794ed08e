// SPDX-License-Identifier: Apache-2.0
// Views of bytes as LLVM's ELF types (llvm/Object/ELFTypes.h). These decode byte order and word
// size, and have an alignment of 1, so that they can be used without a copy.
//
// uprobectl locates the tables itself: the functions of llvm::object::ELFFile either need section
// headers, which a loadable file may lack, or reject a whole table for one damaged entry.
#pragma once

#include "uprobectl/elf.hpp"

#include <algorithm>
#include <llvm/Object/ELF.h>

namespace uprobectl::elf {

namespace raw = llvm::ELF;

// Calls visit.operator()<ELFT>() with the ELFT of this word size and byte order.
template <typename Visit>
decltype(auto) with_elf_type(const Machine& machine, const Visit& visit) {
  using namespace llvm::object;
  const bool is_little = machine.order == ByteOrder::little;
  if (machine.is_64bit)
    return is_little ? visit.template operator()<ELF64LE>() : visit.template operator()<ELF64BE>();
  return is_little ? visit.template operator()<ELF32LE>() : visit.template operator()<ELF32BE>();
}

inline std::uint64_t symbol_size(const Machine& machine) {
  return with_elf_type(machine, []<class ELFT>() { return sizeof(typename ELFT::Sym); });
}

inline llvm::StringRef as_string_ref(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Returns the structure at the offset; null if it is truncated.
template <typename Structure>
const Structure* view_at(Bytes bytes, std::uint64_t offset) {
  static_assert(alignof(Structure) == 1);
  const auto part = slice(bytes, offset, sizeof(Structure));
  return part ? reinterpret_cast<const Structure*>(part->data()) : nullptr;
}

// Returns as many structures as fit into the bytes.
template <typename Structure>
llvm::ArrayRef<Structure> views_in(Bytes bytes) {
  static_assert(alignof(Structure) == 1);
  return {reinterpret_cast<const Structure*>(bytes.data()), bytes.size() / sizeof(Structure)};
}

// Returns the value, or nullopt instead of LLVM's error.
template <typename Value>
std::optional<Value> accepted(llvm::Expected<Value> checked) {
  if (checked) return std::move(*checked);
  llvm::consumeError(checked.takeError());
  return std::nullopt;
}

// Bytes; the longest name in libLLVM 14 and libstdc++ has 554. Without a limit, many symbols that
// all refer to one string of megabytes would take hours.
inline constexpr std::size_t max_name_length = 65536;

// The name at an offset in a string table.
inline std::optional<std::string_view> name_at(Bytes strings, std::uint64_t offset) {
  if (offset >= strings.size()) return std::nullopt;
  const Bytes rest = strings.subspan(offset);
  return c_string_at(rest.first(std::min(rest.size(), max_name_length + 1)), 0);
}

// The name of a symbol, cut to max_name_length: without a name its code would be taken for that of
// another function. Image::symbol_damage() counts them.
inline std::optional<std::string_view> symbol_name_at(Bytes strings, std::uint64_t offset) {
  if (const auto name = name_at(strings, offset)) return name;
  const auto cut = slice(strings, offset, max_name_length);
  return cut && strings.size() - offset > max_name_length ? std::optional(as_text(*cut))
                                                          : std::nullopt;
}

} // namespace uprobectl::elf
