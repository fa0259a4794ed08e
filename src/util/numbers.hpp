// SPDX-License-Identifier: Apache-2.0
// Parses numbers in text, and LEB128 numbers in bytes.
#pragma once

#include "uprobectl/util.hpp"

#include <charconv>
#include <type_traits>

namespace uprobectl {

// Parses a number at the start of the text and removes it from the text. Returns nullopt, and
// leaves the text unchanged, if there is no number or it does not fit. Only signed types accept a
// '-'; no type accepts a '+' or blanks. `base`: of integers.
template <typename Number>
std::optional<Number> take_number(std::string_view& text, int base = 10) {
  Number value = 0;
  const auto [end, error] = [&] {
    if constexpr (std::is_floating_point_v<Number>)
      return std::from_chars(text.data(), text.data() + text.size(), value);
    else
      return std::from_chars(text.data(), text.data() + text.size(), value, base);
  }();
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

// Parses a text that is a number and nothing else.
template <typename Number>
std::optional<Number> parse_number(std::string_view text, int base = 10) {
  const auto value = take_number<Number>(text, base);
  return text.empty() ? value : std::nullopt;
}

// Reads an unsigned LEB128 number (DWARF 5, 7.6; also in DEX files and protobuf) and moves `at`
// after it. `at` is at most bytes.size(). Returns nullopt if the number is truncated, is longer
// than max_bytes or does not fit into 64 bits.
inline std::optional<std::uint64_t> take_uleb128(Bytes bytes, std::uint64_t& at,
                                                 unsigned max_bytes = 10) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 7 * max_bytes && at < bytes.size(); shift += 7) {
    const auto byte = std::to_integer<std::uint64_t>(bytes[at++]);
    const std::uint64_t part = byte & 0x7fU;
    if (shift == 63 && part > 1) break;
    value |= part << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

// Reads a signed number in the same way.
inline std::optional<std::int64_t> take_sleb128(Bytes bytes, std::uint64_t& at) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && at < bytes.size(); shift += 7) {
    const auto byte = std::to_integer<std::uint64_t>(bytes[at++]);
    value |= (byte & 0x7fU) << shift;
    if ((byte & 0x80U) != 0) continue;
    // The tenth byte has one bit of the number; the others repeat it.
    if (shift == 63 && byte != 0 && byte != 0x7fU) break;
    if (shift < 57 && (byte & 0x40U) != 0) value |= ~std::uint64_t{0} << (shift + 7);
    return static_cast<std::int64_t>(value);
  }
  return std::nullopt;
}

} // namespace uprobectl
