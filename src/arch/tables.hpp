// SPDX-License-Identifier: Apache-2.0
// The ArchInfo tables, which arch.cpp collects.
#pragma once

#include "uprobectl/arch.hpp"

#include <array>

namespace uprobectl {

extern const ArchInfo x86_64_info;
extern const ArchInfo i386_info;
extern const ArchInfo arm64_info;
extern const ArchInfo arm_info;
extern const ArchInfo thumb_info;
extern const std::array<ArchInfo, 10> other_archs; // Arch::riscv and the following

// The names of the registers, for ArchInfo::register_names.
template <std::size_t N>
constexpr std::array<std::string_view, N>
register_names_of(const std::array<RegisterInfo, N>& registers) {
  std::array<std::string_view, N> names;
  for (std::size_t i = 0; i < N; ++i) names[i] = registers[i].name;
  return names;
}

// Parses a decimal number of one or two digits without a leading zero. Returns nullopt unless it is
// below the limit.
std::optional<std::uint32_t> parse_register_number(std::string_view digits, std::uint32_t limit);

} // namespace uprobectl
