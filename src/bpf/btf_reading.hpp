// SPDX-License-Identifier: Apache-2.0
// Reads BTF that libbpf has parsed. Source of the format: Linux Documentation/bpf/btf.rst.
#pragma once

#include <bpf/btf.h>
#include <cstdint>
#include <ranges>
#include <string_view>

namespace uprobectl::bpf {

// Returns the name at an offset; empty if the offset is invalid.
std::string_view btf_name(const btf* types, std::uint32_t offset);

// Returns the type without typedef, const and the like; null for void and invalid ids.
const btf_type* resolved_type(const btf* types, std::uint32_t id);

struct BtfEnumerator {
  std::string_view name;
  std::uint64_t value = 0; // sign-extended
};
BtfEnumerator btf_enumerator(const btf* types, const btf_type* type, int index);
// The enumerators of an enum; none of another type.
inline auto btf_enumerators(const btf* types, const btf_type* type) {
  return std::views::iota(0, btf_is_any_enum(type) ? int{btf_vlen(type)} : 0) |
         std::views::transform([=](int index) { return btf_enumerator(types, type, index); });
}

// Classifies arrays of 1-byte integers: text or bytes. `none`: another array.
enum class ByteArray { none, text, bytes };
// `element`: the id of their type.
ByteArray classify_elements(const btf* types, std::uint32_t element);

} // namespace uprobectl::bpf
