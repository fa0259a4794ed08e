// SPDX-License-Identifier: Apache-2.0
#include "bpf/btf_reading.hpp"

namespace uprobectl::bpf {

std::string_view btf_name(const btf* types, std::uint32_t offset) {
  const char* const name = btf__name_by_offset(types, offset);
  return name == nullptr ? std::string_view() : name;
}

const btf_type* resolved_type(const btf* types, std::uint32_t id) {
  const int resolved = btf__resolve_type(types, id);
  return resolved < 0 ? nullptr : btf__type_by_id(types, static_cast<std::uint32_t>(resolved));
}

BtfEnumerator btf_enumerator(const btf* types, const btf_type* type, int index) {
  if (btf_is_enum64(type)) {
    struct btf_enum64* const wide = ::btf_enum64(type) + index;
    return {.name = btf_name(types, wide->name_off), .value = btf_enum64_value(wide)};
  }
  const struct btf_enum& narrow = ::btf_enum(type)[index];
  return {.name = btf_name(types, narrow.name_off),
          .value = static_cast<std::uint64_t>(std::int64_t{narrow.val})};
}

// Compilers use the name "char"; few set the encoding.
ByteArray classify_elements(const btf* types, std::uint32_t element) {
  const btf_type* const type = resolved_type(types, element);
  if (type == nullptr || !btf_is_int(type) || type->size != 1) return ByteArray::none;
  const std::uint8_t encoding = btf_int_encoding(type);
  if ((encoding & BTF_INT_CHAR) != 0 || btf_name(types, type->name_off) == "char")
    return ByteArray::text;
  return (encoding & BTF_INT_BOOL) != 0 ? ByteArray::none : ByteArray::bytes;
}

} // namespace uprobectl::bpf
