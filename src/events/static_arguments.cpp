// SPDX-License-Identifier: Apache-2.0
// Which types the arguments of static probes have, and which can be read.
#include "events/readings.hpp"

#include <fmt/format.h>

namespace uprobectl::events {

std::optional<ArgumentType> static_argument_type(const usdt::StaticArgument& argument) {
  if (!argument.size) // then the sign is unknown, too
    return argument.width == 1   ? ArgumentType::x8
           : argument.width == 2 ? ArgumentType::x16
           : argument.width == 4 ? ArgumentType::x32
                                 : ArgumentType::x64;
  if (argument.is_float) {
    if (argument.size == 4) return ArgumentType::f32;
    if (argument.size == 8) return ArgumentType::f64;
    return std::nullopt;
  }
  switch (*argument.size) {
  case 1:
    return argument.is_signed ? ArgumentType::s8 : ArgumentType::u8;
  case 2:
    return argument.is_signed ? ArgumentType::s16 : ArgumentType::u16;
  case 4:
    return argument.is_signed ? ArgumentType::s32 : ArgumentType::u32;
  case 8:
    return argument.is_signed ? ArgumentType::s64 : ArgumentType::u64;
  default:
    return std::nullopt;
  }
}

bool is_block(const usdt::StaticArgument& argument) {
  constexpr std::uint32_t max_block = 64; // bytes
  return argument.kind == usdt::StaticArgument::Kind::in_memory && argument.index.empty() &&
         !argument.is_float && argument.size.value_or(0) <= max_block &&
         !static_argument_type(argument);
}

std::string unreadable_reason(const usdt::StaticArgument& argument) {
  if (argument.kind == usdt::StaticArgument::Kind::out_of_reach ||
      argument.kind == usdt::StaticArgument::Kind::unparsed)
    return argument.problem;
  if (!static_argument_type(argument) && !is_block(argument))
    return fmt::format("unsupported size of {} bytes", *argument.size);
  return {};
}

} // namespace uprobectl::events
