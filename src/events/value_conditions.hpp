// SPDX-License-Identifier: Apache-2.0
// Evaluates comparisons of --if for values that have been read, of events and of users' records.
#pragma once

#include "events/conditions.hpp"
#include "events/events.hpp"
#include "events/text_pattern.hpp"
#include "values/value.hpp"

#include <functional>
#include <set>

namespace uprobectl::events {

// Whether a comparison holds. unread: its value could not be read. unknown: there is no value.
enum class Truth : std::uint8_t { no, yes, unread, unknown };
constexpr Truth truth_of(bool is_true) { return is_true ? Truth::yes : Truth::no; }

// The texts that a comparison matches.
class ConditionTexts {
public:
  // Fails with `usage` if a pattern is too complex.
  static Result<ConditionTexts> make(const ConditionSpec& spec);

  // `is_whole`: the text does not go on.
  Truth match(std::string_view text, bool is_whole) const;
  bool are_bytes() const { return are_bytes_; }

private:
  std::vector<PatternState> machine_ = {};
  std::set<std::string, std::less<>> set_ = {}; // instead, if it is large
  bool are_bytes_ = false;
};

// Compares a value of this type, for which the condition was compiled.
Truth evaluate_condition(const PreparedTerm& condition, const ConditionTexts& texts,
                         const values::ValueType& type, const values::Value& value);

// Whether an expression holds, whose comparisons `truth` decides. One that is not known fails, also
// if it is negated.
bool evaluate_expression(const FilterNode& node,
                         const std::function<Truth(std::size_t term)>& truth);

} // namespace uprobectl::events
