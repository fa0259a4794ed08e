// SPDX-License-Identifier: Apache-2.0
// Follows the calls that a CallVisitor receives, for each thread on the stacks that it uses:
// coroutines and signal handlers run on stacks of their own, whose calls do not nest in time.
#pragma once

#include "events/call_tree.hpp"

#include <unordered_map>

namespace uprobectl::output {

class CallPaths {
public:
  struct Call {
    std::uint64_t id = 0;
    std::uint64_t stack_pointer = 0;
    const resolve::ProbePoint* point = nullptr;
  };
  struct Path {
    std::size_t stack = 0;       // number of the thread's stack; the first is 0
    std::span<const Call> calls; // the open calls of that stack up to this one, outermost first
  };

  // Call it when the call opens. The result is valid until the next call.
  Path open(const events::OpenCall& call);
  // Call it when the call closes. nullopt if it has not been opened, or exceeded a limit. The
  // result, which includes the call, is valid until the next call.
  std::optional<Path> close(const events::OpenCall& call);

private:
  // Beyond these limits: the calls of all threads are forgotten; a call is put on the last stack; a
  // call is left out of its path.
  static constexpr std::size_t max_threads = 1 << 16;
  static constexpr std::size_t max_stacks = 64;
  static constexpr std::size_t max_depth = 1 << 16;

  struct Stack {
    std::vector<Call> calls;
    std::size_t closed = 0; // of `calls`, at the end: kept for the result of close()
  };
  using Stacks = std::vector<Stack>;
  Stacks& stacks_of(const events::OpenCall& call);
  static std::size_t choose(Stacks& stacks, const events::OpenCall& call);

  std::unordered_map<std::uint64_t, Stacks> threads_; // by pid << 32 | tid
};

} // namespace uprobectl::output
