// SPDX-License-Identifier: Apache-2.0
#include "output/call_paths.hpp"

#include <algorithm>

namespace uprobectl::output {

CallPaths::Stacks& CallPaths::stacks_of(const events::OpenCall& call) {
  const std::uint64_t thread = std::uint64_t{call.pid} << 32U | call.tid;
  if (threads_.size() >= max_threads && !threads_.contains(thread)) threads_.clear();
  return threads_[thread];
}

// A call is on the stack that has as many open calls as there are around it, and whose innermost
// call began at the nearest higher address.
std::size_t CallPaths::choose(Stacks& stacks, const events::OpenCall& call) {
  std::size_t best = stacks.size();
  std::uint64_t best_distance = 0;
  for (std::size_t i = 0; i < stacks.size(); ++i) {
    const std::vector<Call>& calls = stacks[i].calls;
    if (calls.size() != call.depth) continue;
    const std::uint64_t distance =
        calls.empty() ? 0 : calls.back().stack_pointer - call.stack_pointer; // modulo 2^64
    if (best < stacks.size() && distance >= best_distance) continue;
    best = i;
    best_distance = distance;
  }
  if (best < stacks.size()) return best;
  if (stacks.size() < max_stacks) stacks.emplace_back();
  return stacks.size() - 1;
}

CallPaths::Path CallPaths::open(const events::OpenCall& call) {
  Stacks& stacks = stacks_of(call);
  for (Stack& stack : stacks)
    stack.calls.resize(stack.calls.size() - std::exchange(stack.closed, 0));
  const std::size_t chosen = choose(stacks, call);
  std::vector<Call>& calls = stacks[chosen].calls;
  if (calls.size() < max_depth)
    calls.push_back({.id = call.id, .stack_pointer = call.stack_pointer, .point = call.point});
  return {.stack = chosen, .calls = calls};
}

std::optional<CallPaths::Path> CallPaths::close(const events::OpenCall& call) {
  Stacks& stacks = stacks_of(call);
  for (std::size_t i = 0; i < stacks.size(); ++i) {
    Stack& stack = stacks[i];
    stack.calls.resize(stack.calls.size() - std::exchange(stack.closed, 0));
    const auto found = std::find_if(stack.calls.rbegin(), stack.calls.rend(),
                                    [&](const Call& each) { return each.id == call.id; });
    if (found == stack.calls.rend()) continue;
    // Calls inside it that are still there have exceeded a limit elsewhere.
    stack.calls.erase(found.base(), stack.calls.end());
    stack.closed = 1;
    return Path{.stack = i, .calls = stack.calls};
  }
  return std::nullopt;
}

} // namespace uprobectl::output
