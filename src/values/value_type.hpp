// SPDX-License-Identifier: Apache-2.0
// The type of a value, known before the value is read: how the value is compared and summed, and
// its members. A run compares values in the kernel; a saved run is filtered by the values that it
// has. Both use these types.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace uprobectl::values {

// How a value can be used in conditions.
enum class ValueUse : std::uint8_t { number, text, bytes, none };

struct Enumeration {
  struct Enumerator {
    std::string name;
    std::int64_t value = 0;
  };
  std::string name; // "shop::Color"
  bool is_scoped = false;
  std::vector<Enumerator> enumerators = {};
  std::uint32_t saved_id = 0; // in a saved run, from 1
};

// What 1 stands for in a duration: `numerator / denominator` seconds. Both are positive.
struct TickPeriod {
  std::uint64_t numerator = 1;
  std::uint64_t denominator = 1;

  bool operator==(const TickPeriod&) const = default;
};

struct ValueType {
  ValueUse use = ValueUse::number;
  // As in the source or in --args; for messages, a type without a name is "an address", "an array"
  // and the like. Empty: a number whose type is not known.
  std::string name = {};
  // For ValueUse::number:
  unsigned bits = 64;
  bool is_signed = false;
  bool is_floating = false;
  bool is_address = false;
  std::shared_ptr<const Enumeration> enumeration = {}; // its enumerators are constants
  std::optional<TickPeriod> tick = {};                 // for a duration: its unit

  std::optional<std::uint64_t> size = {}; // in bytes, if it is always the same
  std::vector<ValueType> members = {};    // of a structure
  std::string member_name = {};           // as a member; empty: anonymous
  std::vector<ValueType> element = {};    // one type, if the value is an array
  std::string problem = {};               // why nothing of it can be read; empty if it can

  bool is_known() const { return !name.empty(); }
};

// A value that the events of a probed point have, as events::PointDescription lists them.
struct DescribedValue {
  std::string name; // as in events, or the requested path
  ValueType type;
  bool at_return = false; // otherwise at the entry
  std::string source{};   // where the whole value comes from: "arg1", "rax"; may be empty
};

} // namespace uprobectl::values
