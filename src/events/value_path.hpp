// SPDX-License-Identifier: Apache-2.0
// Parses values as the source code names them: "item.name", "self->items[0].id", "*p". What the
// names stand for is decided by debug information, see value_plan.hpp.
#pragma once

#include "uprobectl/util.hpp"

#include <cstdint>
#include <vector>

namespace uprobectl {

// A variable, parameter or result, and a way from it to a member or to what it points to.
struct ValuePath {
  struct Step {
    enum class Kind : std::uint8_t { member, element, dereference };
    Kind kind = Kind::dereference;
    std::string name = {};   // of a member
    std::uint64_t index = 0; // of an element
    std::size_t at = 0;      // in the text: of the name, index or '*'

    bool operator==(const Step&) const = default;
  };
  std::string text;        // as typed
  std::string variable;    // "ret": the result
  std::vector<Step> steps; // the first is applied to the variable; at most max_path_steps

  bool operator==(const ValuePath&) const = default;
};

constexpr std::size_t max_path_steps = 8; // "->" counts as one

// Parses a path of C or C++: names with "::", ".", "->", "[NUMBER]", "*" and parentheses; or the
// name of a register behind '%'. Fails with `usage`.
Result<ValuePath> parse_value_path(std::string_view text);

// Returns the length of the longest path that the text begins with, trailing blanks excluded; 0 if
// there is none.
std::size_t find_path_end(std::string_view text);

} // namespace uprobectl
