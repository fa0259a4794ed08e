// SPDX-License-Identifier: Apache-2.0
// Compiles comparisons of --if: in one way, whatever source of types a value has.
#pragma once

#include "dwarf/types.hpp"
#include "events/filter.hpp"
#include "events/prepared.hpp"

namespace uprobectl {

// As what a value is used.
enum class ValueUse : std::uint8_t { number, text, bytes };

// A value at a point: how it is read, and what its type says.
struct ComparedValue {
  ValueUse kind = ValueUse::number;   // what it is, which may not be what was asked for
  reading value = {};                 // a number; of a text or bytes the address
  std::optional<reading> length = {}; // READ_BYTES: of the number of bytes
  std::optional<reading> offset = {}; // what is added to either, see reading::offset_from
  std::string type_name = {};         // empty: the type of the number is not known
  unsigned bits = 64;                 // of a number
  bool is_signed = false;
  bool is_floating = false;
  bool is_address = false;
  const dwarf::Type* enumeration = nullptr; // whose enumerators are constants; borrowed
  std::optional<std::uint64_t> size = {};   // of bytes, if it is always the same
  std::string length_name = {};             // of bytes: the name of their number

  bool has_type() const { return !type_name.empty(); }
};

ValueUse use_of(const ConditionSpec& spec);

// Compares a value with the constants of a condition.
ConditionResult<PreparedTerm> compile_condition(const ConditionSpec& spec, ComparedValue value);

// Makes the bits of a floating-point number of 4 or 8 bytes a number whose signed order is that of
// the floating-point numbers. As the built-in program: order_float() of bpf/programs/filter.h.
std::int64_t order_float(double number, std::uint32_t size);

} // namespace uprobectl
