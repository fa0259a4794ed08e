// SPDX-License-Identifier: Apache-2.0
#include "events/argument_lists.hpp"

#include "uprobectl/symbols.hpp"

#include <algorithm>

namespace uprobectl {

namespace {

// Whether FUNCTION or PROBE may select the point by a name that is not its whole name.
bool is_spelled(const std::string& function, const ProbePoint& point) {
  if (!point.symbol) return false;
  if (point.static_probe) return point.symbol->ends_with(":" + without_dashes(function));
  return is_body_of(point, function);
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
    by_static_name_[without_dashes(*lists[i].function)] = i;
  }
}

std::size_t ArgumentListIndex::find(const ProbePoint& point) const {
  std::optional<std::size_t> found;
  const auto look_up = [&](const auto& names, const std::string& name) {
    if (const auto known = names.find(name); known != names.end())
      found = std::max(found.value_or(0), known->second);
  };
  if (!by_name_.empty()) {
    look_up(by_name_, point.request);
    if (point.symbol) look_up(by_name_, *point.symbol);
    if (point.demangled) look_up(by_name_, *point.demangled);
    look_up(by_name_, display_name(point));
    if (point.static_probe && point.symbol) look_up(by_static_name_, *point.symbol);
  }
  for (std::size_t i = lists_.size(); !found && i-- > 0;)
    if (lists_[i].function && is_spelled(*lists_[i].function, point)) found = i;
  return found.value_or(general_);
}

bool applies_to(const ArgumentList& list, const ProbePoint& point) {
  if (list.function && point.static_probe && without_dashes(*list.function) == point.symbol)
    return true;
  return !list.function || *list.function == point.request || *list.function == point.symbol ||
         *list.function == point.demangled || *list.function == display_name(point) ||
         is_spelled(*list.function, point);
}

} // namespace uprobectl
