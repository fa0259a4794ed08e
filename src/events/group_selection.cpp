// SPDX-License-Identifier: Apache-2.0
#include "events/group_selection.hpp"

#include "util/text.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl {

namespace {

// Returns why the argument with the length of a buffer cannot be read; empty if it can.
std::string length_problem(const ArgumentSpec& spec, std::span<const PlannedArgument> list) {
  if (!spec.length_from) return {};
  const auto length = std::ranges::find_if(
      list, [&](const PlannedArgument& each) { return each.spec.name == *spec.length_from; });
  if (length == list.end())
    return "its length " + *spec.length_from + " is not an argument of this probe";
  if (!length->problem.empty() || is_floating(length->spec.type))
    return "its length " + *spec.length_from + " cannot be read";
  return {};
}

std::vector<PlannedArgument>::const_iterator find_argument(const std::vector<PlannedArgument>& list,
                                                           std::string_view name) {
  return std::ranges::find_if(list, [&](const auto& each) { return each.spec.name == name; });
}

} // namespace

std::vector<PlannedArgument> assign_readings(std::vector<PlannedArgument> planned) {
  for (PlannedArgument& each : planned)
    if (each.problem.empty()) each.problem = length_problem(each.spec, planned);
  std::size_t next = 0;
  for (const bool memory : {false, true})
    for (PlannedArgument& each : planned)
      if (each.problem.empty() && is_memory(each.spec.type) == memory) each.reading = next++;
  return planned;
}

record_u8 group_part_of(const GroupSpec& groups, const PlannedArgument& planned,
                        const reading& how) {
  const std::string& name = planned.spec.name;
  const bool is_key = std::ranges::any_of(
      groups.by, [&](const GroupValue& each) { return !each.fact && each.text == name; });
  unsigned part = 0;
  if (groups.measured == name) part |= GROUP_SUMMED;
  if ((part & GROUP_SUMMED) != 0 && !is_key) part |= GROUP_OMITTED;
  const bool is_address = how.form == READ_STRING || (how.form == READ_BYTES && !how.length_is_end);
  // What only leads to another value: an address, or a length.
  const bool is_step = !is_key && planned.spec.type == ArgumentType::ptr;
  if (is_address || is_step) part |= GROUP_ONLY_NULL;
  return static_cast<record_u8>(part);
}

GroupSelection::GroupSelection(const GroupSpec& groups) : groups_(groups), names_(groups.names()) {
  if (groups.measured && std::ranges::find(names_, *groups.measured) == names_.end())
    names_.push_back(*groups.measured);
  found_.resize(names_.size());
}

Result<void> GroupSelection::check_summed(const PlannedArgument& summed) const {
  if (!summed.problem.empty()) return {};
  const std::string name = "--measure: " + in_single_quotes(summed.spec.name);
  if (is_memory(summed.spec.type) || is_floating(summed.spec.type))
    return fail(ErrorKind::usage, name + " is not an integer");
  if (summed.spec.type == ArgumentType::ptr)
    return fail(Error{ErrorKind::usage, name + " is an address"}.hint(
        "declare what it points to: --args NAME:s32@arg0+0"));
  return {};
}

Result<RecordFormat> GroupSelection::select(RecordFormat format) {
  if (groups_.by.empty()) return format;
  if (format.prepared > 0) {
    found_.assign(found_.size(), true);
    return format;
  }
  std::vector<PlannedArgument> selected;
  for (std::size_t i = 0; i < names_.size(); ++i) {
    const auto known = find_argument(format.arguments, names_[i]);
    if (known != format.arguments.end()) {
      selected.push_back(*known);
    } else if (auto source = parse_source_name(names_[i])) {
      PlannedArgument& added = selected.emplace_back();
      added.spec.name = names_[i];
      added.spec.source = std::move(*source);
    } else {
      continue;
    }
    found_[i] = true;
    if (names_[i] == groups_.measured)
      if (auto checked = check_summed(selected.back()); !checked)
        return fail(std::move(checked).error());
  }
  for (const PlannedArgument& each : format.arguments) offered_.insert(each.spec.name);
  for (std::size_t i = 0; i < selected.size(); ++i)
    for (const auto& needed : {selected[i].spec.length_from, selected[i].spec.address_from})
      if (needed && find_argument(selected, *needed) == selected.end())
        if (const auto known = find_argument(format.arguments, *needed);
            known != format.arguments.end())
          selected.push_back(PlannedArgument(*known));
  return RecordFormat{.arguments = assign_readings(std::move(selected))};
}

Result<void> GroupSelection::check() const {
  for (std::size_t i = 0; i < names_.size(); ++i) {
    if (found_[i]) continue;
    Error error{ErrorKind::not_found, fmt::format("{}: no probed function has an argument {}",
                                                  i < groups_.names().size() ? "--by" : "--measure",
                                                  in_single_quotes(names_[i]))};
    const std::string offered = list_names(offered_);
    if (!offered.empty()) error = std::move(error).hint("its arguments are: " + offered);
    return fail(std::move(error).hint("declare it with --args NAME:TYPE@argN, or count by arg0, "
                                      "arg1, …, ret or a register"));
  }
  return {};
}

} // namespace uprobectl
