// SPDX-License-Identifier: Apache-2.0
// Arithmetic modulo 2^64. Damaged files have any numbers, and addresses wrap around.
#pragma once

#include <cstdint>

namespace uprobectl {

inline std::int64_t add_wrapping(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
inline std::int64_t add_wrapping(std::int64_t a, std::uint64_t b) {
  return add_wrapping(a, static_cast<std::int64_t>(b));
}
inline std::int64_t negate_wrapping(std::int64_t number) {
  return static_cast<std::int64_t>(0 - static_cast<std::uint64_t>(number));
}

// The lowest bits of a number, 1 to 64, as a number with a sign.
inline std::int64_t sign_extended(std::uint64_t number, std::uint64_t bits) {
  const std::uint64_t unused = 64 - bits;
  return static_cast<std::int64_t>(number << unused) >> unused;
}

} // namespace uprobectl
