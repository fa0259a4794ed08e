// SPDX-License-Identifier: Apache-2.0
#include "events/group_selection.hpp"

#include "util/text.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl {

namespace {

std::vector<ArgumentSpec>::const_iterator find_argument(const std::vector<ArgumentSpec>& list,
                                                        std::string_view name) {
  return std::ranges::find(list, name, &ArgumentSpec::name);
}

} // namespace

GroupSelection::GroupSelection(const GroupSpec& groups) : groups_(groups), names_(groups.names()) {
  if (groups.measured && std::ranges::find(names_, *groups.measured) == names_.end())
    names_.push_back(*groups.measured);
  found_.resize(names_.size());
}

Result<void> GroupSelection::check_summed(const ArgumentSpec& summed) const {
  if (!summed.problem.empty()) return {};
  const std::string name = "--measure: " + in_single_quotes(summed.name);
  if (is_memory(summed.type) || is_floating(summed.type))
    return fail(ErrorKind::usage, name + " is not an integer");
  if (summed.type == ArgumentType::ptr)
    return fail(Error{ErrorKind::usage, name + " is an address"}.hint(
        "declare what it points to: --args NAME:s32@arg0+0"));
  return {};
}

Result<DeclaredValues> GroupSelection::select(DeclaredValues declared, const ValuePlan* typed) {
  if (groups_.by.empty()) return declared;
  const bool has_types = typed != nullptr && !typed->readings().empty();
  if (has_types) found_.assign(found_.size(), true);
  std::vector<ArgumentSpec> selected;
  for (std::size_t i = 0; i < names_.size(); ++i) {
    const auto known = find_argument(declared.arguments, names_[i]);
    if (known != declared.arguments.end()) {
      selected.push_back(*known);
    } else if (auto source = parse_source_name(names_[i]); source && !has_types) {
      ArgumentSpec& added = selected.emplace_back();
      added.name = names_[i];
      added.source = std::move(*source);
    } else {
      continue;
    }
    found_[i] = true;
    if (names_[i] == groups_.measured)
      if (auto checked = check_summed(selected.back()); !checked)
        return fail(std::move(checked).error());
  }
  for (const ArgumentSpec& each : declared.arguments) offered_.insert(each.name);
  for (std::size_t i = 0; i < selected.size(); ++i)
    for (const auto& needed : {selected[i].length_from, selected[i].address_from})
      if (needed && find_argument(selected, *needed) == selected.end())
        if (const auto known = find_argument(declared.arguments, *needed);
            known != declared.arguments.end())
          selected.push_back(ArgumentSpec(*known));
  return DeclaredValues{.arguments = std::move(selected)};
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
