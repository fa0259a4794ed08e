// SPDX-License-Identifier: Apache-2.0
// The values by which spans are counted, and the weights of events.
#include "events/built_in_variables.hpp"
#include "events/point_values.hpp"
#include "events/span_conditions.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl::events {

bool PointValues::has_role(bool ends) const {
  return std::ranges::find(probed_.roles, ends, &SpanRole::ends) != probed_.roles.end();
}

// Values of spans are counted and measured with their events: of each end those that are named.
Result<ValuePlan> PointValues::span_values(NameProblems& problems) const {
  const CaptureSpec& capture = context_.capture;
  Selection selection;
  const auto add = [&](std::string_view option, const std::string& name,
                       bool is_summed) -> Result<void> {
    auto path = parse_value_path(name);
    if (!path) return fail(std::move(path).error().within(option));
    auto at_end = value_at_end(*path);
    if (!has_role(at_end.has_value())) return {};
    if (at_end) path = std::move(*at_end);
    FoundValue found = find_asked(*path);
    const bool is_key = name == span_key_name && found.name.declared == nullptr &&
                        !found.name.is_variable && !found.name.source;
    if (is_key) {
      problems.add(option, name, std::nullopt);
      return {};
    }
    if (found.name.built_in)
      found.problem =
          Error{ErrorKind::usage, "a built-in variable is not a value of the function"}.within(
              in_single_quotes(name));
    else if (is_summed && found.is_read_at_entry() && !found.problem)
      if (auto number = summed({.text = path->text, .operands = {*path}}); !number)
        found.problem = number.error();
    if (found.problem)
      problems.add(option, name, std::move(found.problem));
    else
      select({.option = option, .name = name, .path = *path}, std::move(found), selection,
             problems);
    return {};
  };
  for (const GroupValue& each : capture.groups.by)
    if (!each.built_in)
      if (auto added = add("--by", each.text, false); !added) return fail(added.error());
  std::vector<std::string> summed_names;
  if (capture.groups.measured) summed_names = capture.groups.measured->names();
  if (capture.measured) summed_names = capture.measured->names();
  for (const std::string& each : summed_names)
    if (auto added = add("--measure", each, true); !added) return fail(added.error());
  return capture_selected(std::move(selection), problems);
}

Result<std::optional<SummedValue>> PointValues::weight_here(const SummedValue& asked) const {
  if (probed_.roles.empty()) return asked;
  SummedValue at_end{.text = asked.text, .operands = {}};
  for (const ValuePath& each : asked.operands)
    if (auto value = value_at_end(each)) at_end.operands.push_back(std::move(*value));
  if (!at_end.operands.empty() && at_end.operands.size() < asked.operands.size())
    return fail(ErrorKind::usage,
                fmt::format("'{}': both numbers must be of the same end of a span", asked.text));
  const bool ends = !at_end.operands.empty();
  if (!has_role(ends)) return std::nullopt;
  return ends ? at_end : asked;
}

// Adds no reading for a number that the event has without it.
Result<void> PointValues::add_weight(ValuePlan& values, const SummedValue& wanted,
                                     NameProblems& problems) const {
  const auto here = weight_here(wanted);
  if (!here) return fail(Error(here.error()).within("--weight"));
  if (!*here) return {};
  const SummedValue& asked = **here;
  bool is_in_event = true; // what events have or the call tells is taken from there
  for (const ValuePath& path : asked.operands) {
    const auto built_in = find_built_in(path);
    // Calls are paired for it before the types are known: it is never a parameter of this name.
    if (built_in && call_time_of(*built_in) && !asked.is_product()) return {};
    const FoundName found = find(path, false, built_in);
    if (found.built_in) {
      problems.add(
          "--weight", asked.text,
          Error{ErrorKind::usage,
                fmt::format("'{}' is not a number of a call{}", path.text,
                            asked.is_product() ? " that is multiplied" : ", only its times are")});
      return {};
    }
    is_in_event =
        is_in_event && (found.declared != nullptr ||
                        (found.source && found.source->kind == ArgumentSource::Kind::returned));
  }
  if (is_in_event && !asked.is_product()) {
    problems.add("--weight", asked.text, std::nullopt);
    return {};
  }
  auto weight = summed(asked);
  if (weight && !values.set_weight(*weight))
    weight = fail(ErrorKind::usage, fmt::format("more than {} values", MAX_READINGS));
  problems.add("--weight", asked.text, weight ? std::nullopt : std::optional(weight.error()));
  return {};
}

} // namespace uprobectl::events
