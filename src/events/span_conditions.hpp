// SPDX-License-Identifier: Apache-2.0
// Values of the hit that ends a span ("to.NAME"), and conditions on it and on the duration.
#pragma once

#include "events/filter.hpp"

#include <chrono>

namespace uprobectl::events {

// A value by which spans are counted, unless a variable of FROM has this name.
constexpr std::string_view span_key_name = "key";

// Returns the value that "to.NAME" means at the end of a span; nullopt for another path. A member
// of a variable `to` is written "to->NAME" in a run with spans.
std::optional<ValuePath> value_at_end(const ValuePath& path);
// Returns NAME if the text is "to.NAME"; nullopt for another text.
std::optional<std::string> name_at_end(std::string_view text);
// Returns the condition in the names of the hit that ends a span; nullopt if it is not about the
// end.
std::optional<ConditionSpec> condition_at_end(const ConditionSpec& spec);

// A filter of spans in its parts, which must all hold. The expressions refer to the terms of the
// filter, those of `ends` by condition_at_end().
struct SpanConditions {
  std::vector<FilterExpression> begins = {};
  std::vector<FilterExpression> ends = {};
  std::optional<std::chrono::nanoseconds> min = {}; // of the duration
  std::optional<std::chrono::nanoseconds> max = {};
};
// Fails with `usage` if a part mixes what is known at the beginning with what is known at the end.
Result<SpanConditions> split_span_conditions(const Filter& filter);

// Which terms the expressions have, by their number.
std::vector<bool> find_used_terms(std::span<const FilterExpression> expressions, std::size_t terms);

} // namespace uprobectl::events
