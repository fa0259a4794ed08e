// SPDX-License-Identifier: Apache-2.0
#include "events/argument_lists.hpp"

#include "uprobectl/symbols.hpp"

#include <algorithm>

namespace uprobectl::events {

namespace {

// Whether FUNCTION or PROVIDER:NAME, without a TARGET, means the point.
bool is_named(const std::string& function, const resolve::ProbePoint& point) {
  if (function == point.request || function == point.symbol || function == point.demangled ||
      function == name_in_file(point))
    return true;
  if (!point.symbol) return false;
  if (!point.static_probe) return is_body_of(point, function);
  const std::string name = usdt::without_dashes(function);
  return name == *point.symbol || point.symbol->ends_with(":" + name);
}

bool may_have_target(const std::string& function) {
  for (const bool is_static_probe : {false, true})
    if (const auto split = resolve::split_target(function, is_static_probe);
        split && !split->target.empty())
      return true;
  return false;
}

} // namespace

ArgumentListIndex::ArgumentListIndex(std::span<const ArgumentList> lists)
    : lists_(lists), none_(lists.size()), general_(none_) {
  for (std::size_t i = 0; i < lists.size(); ++i) {
    if (!lists[i].function) {
      if (general_ == none_) general_ = i;
      continue;
    }
    by_name_[*lists[i].function] = i;
    by_static_name_[usdt::without_dashes(*lists[i].function)] = i;
    if (may_have_target(*lists[i].function)) with_target_.push_back(i);
  }
}

std::size_t ArgumentListIndex::find(const resolve::ProbePoint& point) const {
  std::optional<std::size_t> found;
  const auto look_up = [&](const auto& names, const std::string& name) {
    if (const auto known = names.find(name); known != names.end())
      found = std::max(found.value_or(0), known->second);
  };
  if (!by_name_.empty()) {
    look_up(by_name_, point.request);
    if (point.symbol) look_up(by_name_, *point.symbol);
    if (point.demangled) look_up(by_name_, *point.demangled);
    look_up(by_name_, name_in_file(point));
    if (point.static_probe && point.symbol) look_up(by_static_name_, *point.symbol);
  }
  for (const std::size_t i : with_target_)
    if (applies_to(lists_[i], point)) found = std::max(found.value_or(0), i);
  for (std::size_t i = lists_.size(); !found && i-- > 0;)
    if (lists_[i].function && is_named(*lists_[i].function, point)) found = i;
  return found.value_or(general_);
}

bool applies_to(const ArgumentList& list, const resolve::ProbePoint& point) {
  return !list.function || selects(*list.function, point,
                                   [&](const std::string& name) { return is_named(name, point); });
}

} // namespace uprobectl::events
