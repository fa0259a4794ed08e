// SPDX-License-Identifier: Apache-2.0
#include "events/groups.hpp"

#include "events/built_in_variables.hpp"
#include "events/conditions.hpp"
#include "events/event_values.hpp"
#include "events/filter.hpp"
#include "events/span_conditions.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace uprobectl::events {

namespace {

bool declares(const ArgumentList& list, std::string_view name) {
  return find_argument(list.arguments, name) != nullptr ||
         std::ranges::find(list.paths, name, &ValuePath::text) != list.paths.end();
}

// Whether the value is the result, or a part of it.
bool is_of_result(std::string_view text) {
  const auto path = parse_value_path(text);
  return path && path->is_of_result();
}

// The addresses of a key are replaced (GROUP_ONLY_NULL), so errors must not show them.
void hide_address(std::string& reason) {
  constexpr std::string_view before = "memory at 0x1 ";
  if (const auto at = reason.find(before); at != std::string::npos)
    reason.replace(at, before.size(), "memory ");
}

values::Value shown_number(const BuiltInVariable& variable, std::uint64_t number) {
  const RawArgument raw{.type = variable.type, .number = number};
  return variable.is_errno ? present({.kind = Presentation::Kind::error_number}, raw, 0)
                           : plain_value(raw);
}

ArgumentValue built_in_value(std::string_view name, const BuiltInVariable& variable,
                             const Event& event) {
  ArgumentValue value{
      .name = name, .type_name = to_string(variable.type), .is_memory = variable.is_text()};
  if (variable.is_text())
    value.value = {event.*variable.text};
  else if (const auto number = variable.number(event))
    value.value = shown_number(variable, *number);
  else
    value.value = {values::Value::Unreadable{"not available here"}};
  return value;
}

ArgumentValue missing_value(std::string_view name, std::string reason) {
  return {.name = name,
          .type_name = to_string(ArgumentType::x64),
          .value = {values::Value::Unreadable{std::move(reason)}}};
}

ArgumentValue named_value(const std::string& name, const Event& event, EventValues& values) {
  return values.find(name, event).value_or(missing_value(name, "not available here"));
}

} // namespace

bool GroupSpec::has(group_feature variable) const {
  return std::ranges::find(by, variable, &GroupValue::built_in) != by.end();
}

bool GroupSpec::reads_arguments() const { return !std::ranges::all_of(names(), is_of_result); }

bool GroupSpec::reads_result() const {
  return std::ranges::any_of(by,
                             [](const GroupValue& each) { return is_outcome(each.built_in); }) ||
         std::ranges::any_of(names(), is_of_result);
}

std::vector<std::string> GroupSpec::names() const {
  std::vector<std::string> found;
  for (const GroupValue& each : by)
    if (!each.built_in) found.push_back(each.text);
  if (measured)
    for (std::string& each : measured->names())
      if (std::ranges::find(found, each) == found.end()) found.push_back(std::move(each));
  return found;
}

std::vector<std::string> group_names() {
  std::vector<std::string> names = result_names();
  for (const BuiltInVariable& each : built_in_variables)
    if (each.group) names.emplace_back(each.name);
  return names;
}

Result<GroupSpec> parse_groups(std::string_view text, std::span<const ArgumentList> declared) {
  GroupSpec groups;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    const std::string_view name = trimmed(text.substr(at, comma - at), " ");
    at = comma + 1;
    if (name.empty())
      return fail(ErrorKind::usage, "missing value in " + in_single_quotes(text) +
                                        " (expected for example path, comm or arg0)");
    if (std::ranges::find(groups.by, name, &GroupValue::text) != groups.by.end())
      return fail(ErrorKind::usage, in_single_quotes(name) + " given twice");
    if (groups.by.size() == max_group_values)
      return fail(ErrorKind::usage, fmt::format("more than {} values", max_group_values));
    GroupValue value{.text = std::string(name)};
    const bool is_declared =
        std::ranges::any_of(declared, [&](const auto& list) { return declares(list, name); });
    // "$tid" is the built-in variable, even if an argument has its name.
    const bool is_built_in = name.starts_with('$');
    const auto end_name = name_at_end(name);
    const std::string_view own = end_name ? *end_name : name.substr(is_built_in ? 1 : 0);
    const auto* const variable = std::ranges::find(built_in_variables, own, &BuiltInVariable::name);
    if (!is_declared && variable != built_in_variables.end()) value.built_in = variable->group;
    value.at_end = end_name && value.built_in;
    if (value.at_end && value.built_in == BY_STACK)
      return fail(ErrorKind::usage, "spans are counted by the stack of their beginning: stack");
    if (const auto path = parse_value_path(name); !path && !value.built_in)
      return fail(path.error());
    groups.by.push_back(std::move(value));
  }
  return groups;
}

// `is_summed`: the value has to be a number.
static Result<void> check_record_value(std::string_view option, const ValuePath& path,
                                       bool is_summed, std::span<const values::ValueType> records) {
  if (auto missing = find_missing_member(records, path))
    return fail(std::move(missing->error).within(fmt::format("{} '{}'", option, path.text)));
  if (!is_summed) return {};
  std::optional<Error> problem;
  for (const values::ValueType& record : records) {
    const values::ValueType* const member = find_record_member(record, path);
    if (member == nullptr) continue;
    auto checked = check_summed(*member, path.text);
    if (checked) return {};
    if (!problem) problem = std::move(checked).error();
  }
  if (problem) return fail(std::move(*problem).within(option));
  return {};
}

Result<void> check_record_sum(std::string_view option, const SummedValue& value,
                              std::span<const values::ValueType> records) {
  for (const ValuePath& each : value.operands)
    if (auto checked = check_record_value(option, each, true, records); !checked) return checked;
  const auto has_all = [&](const values::ValueType& record) {
    return std::ranges::all_of(value.operands, [&](const ValuePath& each) {
      const values::ValueType* const member = find_record_member(record, each);
      return member != nullptr && check_summed(*member, each.text);
    });
  };
  if (records.empty() || std::ranges::any_of(records, has_all)) return {};
  return fail(ErrorKind::not_found,
              fmt::format("{}: none of the records has all numbers of '{}'", option, value.text));
}

Result<void> check_record_groups(const GroupSpec& groups,
                                 std::span<const values::ValueType> records) {
  for (const GroupValue& key : groups.by) {
    if (key.built_in && !is_outcome(key.built_in)) continue; // records have no calls
    const auto path = parse_value_path(key.text);
    if (!path) return fail(Error(path.error()).within("--by"));
    if (auto checked = check_record_value("--by", *path, false, records); !checked) return checked;
  }
  if (groups.measured) return check_record_sum("--measure", *groups.measured, records);
  return {};
}

std::uint32_t max_group_string(const GroupSpec& groups) {
  // The key has one reading result for each value, and may have another one for its address or
  // length.
  constexpr std::uint32_t overhead = 2 * sizeof(reading_result) + 16;
  const auto values = static_cast<std::uint32_t>(groups.by.size() + (groups.measured ? 1 : 0));
  const std::uint32_t head = sizeof(probe_record) + (groups.has(BY_STACK) ? sizeof(stack_key) : 0);
  const std::uint32_t each = (MAX_GROUP_BYTES - head) / std::max(values, 1U);
  return std::min(default_string_bytes, each - overhead);
}

double average_of(const group_sums& sums) {
  return static_cast<double>(static_cast<std::int64_t>(sums.sum)) /
         static_cast<double>(sums.measured);
}

std::vector<ArgumentValue> group_values(const GroupSpec& groups, const Event& event,
                                        EventValues& known) {
  std::vector<ArgumentValue> values;
  for (const GroupValue& each : groups.by) {
    if (each.built_in == BY_STACK) continue;
    // In an event that is not a span, "to.tid" is the member `tid` of a variable `to`.
    if (each.built_in && !(each.at_end && event.span == nullptr)) {
      const Event* const hit = each.at_end ? event.span->end.get() : &event;
      values.push_back(hit != nullptr
                           ? built_in_value(each.text, built_in_variable(*each.built_in), *hit)
                           : missing_value(each.text, "not available here"));
    } else {
      ArgumentValue& value = values.emplace_back(named_value(each.text, event, known));
      value.name = each.text;
      if (auto* const unread = std::get_if<values::Value::Unreadable>(&value.value.value)) {
        hide_address(unread->reason);
        hide_address(unread->text);
      }
    }
  }
  return values;
}

} // namespace uprobectl::events
