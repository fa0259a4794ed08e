// SPDX-License-Identifier: Apache-2.0
#include "events/groups.hpp"

#include "events/built_in_variables.hpp"
#include "events/conditions.hpp"
#include "events/event_values.hpp"
#include "events/filter.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace uprobectl {

namespace {

constexpr std::string_view result_name = "ret";

bool declares(const ArgumentList& list, std::string_view name) {
  return find_argument(list.arguments, name) != nullptr ||
         std::ranges::find(list.paths, name, &ValuePath::text) != list.paths.end();
}

// Whether the value is the result, or a part of it.
bool is_of_result(std::string_view text) {
  const auto path = parse_value_path(text);
  return path && path->variable == result_name;
}

// The addresses of a key are replaced (GROUP_ONLY_NULL), so errors must not show them.
void hide_address(std::string& reason) {
  constexpr std::string_view before = "memory at 0x1 ";
  if (const auto at = reason.find(before); at != std::string::npos)
    reason.replace(at, before.size(), "memory ");
}

ArgumentValue built_in_value(std::string_view name, const BuiltInVariable& variable,
                             const Event& event) {
  ArgumentValue value{
      .name = name, .type_name = to_string(variable.type), .is_memory = variable.is_text()};
  if (variable.is_text())
    value.value = {event.*variable.text};
  else if (const auto number = variable.number(event))
    value.value = {*number};
  else
    value.value = {Value::Unreadable{"not available here"}};
  return value;
}

ArgumentValue missing_value(std::string_view name, std::string reason) {
  return {.name = name,
          .type_name = to_string(ArgumentType::x64),
          .value = {Value::Unreadable{std::move(reason)}}};
}

ArgumentValue named_value(const std::string& name, const Event& event, EventValues& values) {
  return values.find(name, event).value_or(missing_value(name, "not available here"));
}

} // namespace

bool GroupSpec::has(group_feature variable) const {
  return std::ranges::find(by, variable, &GroupValue::built_in) != by.end();
}

bool GroupSpec::reads_arguments() const { return !std::ranges::all_of(names(), is_of_result); }

bool GroupSpec::reads_result() const { return std::ranges::any_of(names(), is_of_result); }

std::vector<std::string> GroupSpec::names() const {
  std::vector<std::string> found;
  for (const GroupValue& each : by)
    if (!each.built_in) found.push_back(each.text);
  if (measured && std::ranges::find(found, *measured) == found.end()) found.push_back(*measured);
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
    const auto* const variable = std::ranges::find(
        built_in_variables, name.substr(is_built_in ? 1 : 0), &BuiltInVariable::name);
    if (!is_declared && variable != built_in_variables.end()) value.built_in = variable->group;
    if (const auto path = parse_value_path(name); !path && !value.built_in)
      return fail(path.error());
    groups.by.push_back(std::move(value));
  }
  return groups;
}

Result<void> check_record_groups(const GroupSpec& groups, std::span<const ValueType> records) {
  for (const std::string& name : groups.names()) {
    const bool is_key = std::ranges::find(groups.by, name, &GroupValue::text) != groups.by.end();
    const std::string_view option = is_key ? "--by" : "--measure";
    const auto path = parse_value_path(name);
    if (!path) return fail(Error(path.error()).within(option));
    if (auto missing = find_missing_member(records, *path))
      return fail(std::move(missing->error).within(fmt::format("{} '{}'", option, name)));
    if (name != groups.measured) continue;
    std::optional<Error> problem;
    bool is_number = false;
    for (const ValueType& record : records) {
      const ValueType* const member = find_record_member(record, *path);
      if (member == nullptr) continue;
      if (auto checked = check_summed(*member, name); checked)
        is_number = true;
      else if (!problem)
        problem = std::move(checked).error();
    }
    if (!is_number && problem) return fail(std::move(*problem).within("--measure"));
  }
  return {};
}

std::uint32_t max_group_string(const GroupSpec& groups) {
  // Of each value the result of its reading, and maybe of another one for its address or length.
  constexpr std::uint32_t overhead = 2 * sizeof(reading_result) + 16;
  const auto values = static_cast<std::uint32_t>(groups.by.size() + (groups.measured ? 1 : 0));
  const std::uint32_t each = (MAX_GROUP_BYTES - sizeof(group_head)) / std::max(values, 1U);
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
    if (each.built_in && each.built_in != BY_STACK) {
      values.push_back(built_in_value(each.text, built_in_variable(*each.built_in), event));
    } else if (!each.built_in) {
      ArgumentValue& value = values.emplace_back(named_value(each.text, event, known));
      value.name = each.text;
      if (auto* const unread = std::get_if<Value::Unreadable>(&value.value.value)) {
        hide_address(unread->reason);
        hide_address(unread->text);
      }
    }
  }
  return values;
}

} // namespace uprobectl
