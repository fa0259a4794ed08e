// SPDX-License-Identifier: Apache-2.0
#include "trace/record_selection.hpp"

#include "util/text.hpp"

#include <fmt/format.h>

namespace uprobectl::trace {

Result<RecordSelection> RecordSelection::make(const events::Filter& filter,
                                              std::span<const values::ValueType> types,
                                              output::Output& output) {
  auto made = events::RecordFilter::make(filter);
  if (!made) return fail(std::move(made).error());
  if (auto checked = made->check(types); !checked) return fail(std::move(checked).error());
  return RecordSelection(std::move(*made), output);
}

bool RecordSelection::selects(const events::Event& event) {
  const bool selected = filter_.holds(event);
  for (const Error& problem : filter_.take_problems())
    output_->warn(fmt::format("a comparison never holds for records of map '{}': {}{}",
                              event.record->map, problem.message,
                              problem.hints.empty() ? "" : " (" + joined(problem.hints) + ")"));
  return selected;
}

void RecordSelection::report_unknown() const {
  for (const std::string& comparison : filter_.list_unknown())
    output_->warn(
        fmt::format("--if {}: no record has this member", events::in_single_quotes(comparison)));
}

} // namespace uprobectl::trace
