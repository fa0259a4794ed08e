// SPDX-License-Identifier: Apache-2.0
#include "events/call_filter.hpp"

namespace uprobectl::events {

namespace {

constexpr std::size_t max_forked = std::size_t{1} << 16; // processes that are remembered

} // namespace

std::optional<CallFilter::Position> CallFilter::find_position(const OpenCall& call) {
  if (call.forked_in) {
    if (forked_.size() >= max_forked) forked_.clear();
    if (const auto around = positions_.find(*call.forked_in); around != positions_.end())
      forked_.insert_or_assign(call.pid, around->second.root);
  }
  if (call.parent)
    if (const auto parent = positions_.find(*call.parent); parent != positions_.end())
      return Position{.depth = parent->second.depth + 1, .root = parent->second.root};
  if (roots_.contains(call.probe)) return Position{.root = call.id};
  if (!call.parent)
    if (const auto forked = forked_.find(call.pid); forked != forked_.end())
      return Position{.root = forked->second, .is_forked = true};
  return std::nullopt;
}

OpenCall CallFilter::passed_on(const OpenCall& call, const Position& position) {
  OpenCall passed = call;
  passed.depth = position.depth;
  if (position.depth == 0) passed.parent.reset();
  passed.forked_in = position.is_forked ? std::optional(position.root) : std::nullopt;
  return passed;
}

bool CallFilter::select_opened(OpenCall& call, const Event& entry) {
  Selected& selected = selected_[call.id];
  const auto parent = call.parent ? selected_.find(*call.parent) : selected_.end();
  if (parent != selected_.end()) {
    const Selected& above = parent->second;
    selected.shown = above.shown;
    selected.depth = above.depth + (above.is_shown ? 1 : 0);
  }
  call.parent = selected.shown;
  call.depth = selected.depth;
  selected.is_shown = condition_(entry);
  if (selected.is_shown) selected.shown = call.id;
  return selected.is_shown;
}

bool CallFilter::select_closed(OpenCall& call, CallEnd end, std::uint64_t end_ns) {
  const auto known = selected_.find(call.id);
  if (known == selected_.end()) return false;
  const Selected selected = known->second;
  selected_.erase(known);
  if (!selected.is_shown) return false;
  call.children_ns = selected.children_ns;
  call.depth = selected.depth;
  const auto parent = call.parent ? selected_.find(*call.parent) : selected_.end();
  call.parent = parent != selected_.end() ? parent->second.shown : std::nullopt;
  const bool has_returned = end == CallEnd::returned || end == CallEnd::no_return_seen;
  if (const auto above = call.parent ? selected_.find(*call.parent) : selected_.end();
      has_returned && above != selected_.end())
    above->second.children_ns += duration_of(call, end_ns);
  return true;
}

void CallFilter::opened(const OpenCall& opened, const Event& entry) {
  OpenCall call = opened;
  if (condition_ && !select_opened(call, entry)) return;
  Position position{.depth = call.depth};
  if (!roots_.empty()) {
    const auto found = find_position(call);
    if (!found) return;
    position = positions_.emplace(call.id, *found).first->second;
  }
  if (!is_shown(position.depth)) return;
  const OpenCall passed = passed_on(call, position);
  for (CallVisitor* const visitor : visitors_) visitor->opened(passed, entry);
}

void CallFilter::closed(const OpenCall& closed, CallEnd end, std::uint64_t end_ns,
                        const Event* exit) {
  OpenCall call = closed;
  if (condition_ && !select_closed(call, end, end_ns)) return;
  Position position{.depth = call.depth};
  if (!roots_.empty()) {
    const auto known = positions_.find(call.id);
    if (known == positions_.end()) return;
    position = known->second;
    positions_.erase(known);
    if (position.depth == 0 && exit != nullptr && exit->left_by == ExitKind::tail_call)
      ++tail_called_roots_;
  }
  if (!is_shown(position.depth)) return;
  const OpenCall passed = passed_on(call, position);
  for (CallVisitor* const visitor : visitors_) visitor->closed(passed, end, end_ns, exit);
}

// Passes the return on only without roots and a condition: which call it was below is not known.
void CallFilter::unmatched(const Event& exit, std::uint32_t depth) {
  if (condition_ || !roots_.empty() || !is_shown(depth)) return;
  for (CallVisitor* const visitor : visitors_) visitor->unmatched(exit, depth);
}

} // namespace uprobectl::events
