// SPDX-License-Identifier: Apache-2.0
// Parses values as the source code names them: "item.name", "self->items[0].id", "*p". What the
// names stand for is decided by debug information, see value_plan.hpp.
#pragma once

#include "uprobectl/util.hpp"

#include <cstdint>
#include <vector>

namespace uprobectl::events {

// The variable of a path that is the result of the function, or a part of it.
constexpr std::string_view result_name = "ret";

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
  std::string variable;    // or result_name
  std::vector<Step> steps; // the first is applied to the variable; at most max_path_steps

  bool is_of_result() const { return variable == result_name; }

  bool operator==(const ValuePath&) const = default;
};

constexpr std::size_t max_path_steps = 8; // "->" counts as one

// Parses a path of C or C++: names with "::", ".", "->", "[NUMBER]", "*" and parentheses; or the
// name of a register after '%'. Fails with `usage`.
Result<ValuePath> parse_value_path(std::string_view text);

// A number that is summed up or measured: a value, or the product of two.
struct SummedValue {
  std::string text; // as typed
  std::vector<ValuePath> operands;

  bool is_product() const { return operands.size() > 1; }
  bool uses_result() const;
  std::vector<std::string> names() const; // of the operands, as typed

  bool operator==(std::string_view typed) const { return text == typed; }
};

// Parses "PATH" or "PATH*PATH". Fails with `usage`.
Result<SummedValue> parse_summed_value(std::string_view text);

// Returns the length of the longest path that the text begins with, trailing blanks excluded; 0 if
// there is none.
std::size_t find_path_end(std::string_view text);

} // namespace uprobectl::events
