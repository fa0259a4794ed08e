// SPDX-License-Identifier: Apache-2.0
#include "output/stack_copy.hpp"

#include "bpf/record.h"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl::output {

namespace {

// Returns true if a larger copy would contain the missing bytes. They may also be on another stack:
// of a signal handler, or of a coroutine.
bool is_truncated(const unwind::Stack& stack, const StackCopy& copy) {
  if (stack.end != unwind::End::stack_too_short) return false;
  // The kernel shortens copies that do not fit a record of 64 KiB, which also holds
  // replaced_returns.
  constexpr std::size_t tolerance = 512;
  constexpr std::size_t max_copied = MAX_STACK_BYTES - sizeof(replaced_returns);
  const std::size_t most = std::min<std::size_t>(copy.requested, max_copied);
  if (copy.size + tolerance < most) return false;
  // With the maximum size, deeper stacks count as truncated, too.
  const std::uint64_t reach = most == max_copied ? 2 * MAX_STACK_BYTES : MAX_STACK_BYTES;
  return stack.address - copy.address < reach; // modulo 2^64
}

} // namespace

StackCompleteness completeness_of(const unwind::Stack& stack, const StackCopy& copy) {
  if (stack.end == unwind::End::outermost || stack.end == unwind::End::unknown)
    return StackCompleteness::complete;
  return is_truncated(stack, copy) ? StackCompleteness::truncated : StackCompleteness::incomplete;
}

// The kernel stops copying at the first page that is not in memory; the stack may continue after
// it.
std::string explain_incomplete(const unwind::Stack& stack, const StackCopy& copy) {
  const std::uint64_t copied_to = copy.address + copy.size;
  // No copy is as long: the thread was on another stack when the frame was made.
  constexpr std::uint64_t reach = 2 * MAX_STACK_BYTES;
  const bool is_elsewhere = stack.end == unwind::End::stack_too_short &&
                            stack.address - copy.address >= reach; // modulo 2^64
  if (is_elsewhere) {
    const bool has_handler = std::ranges::any_of(stack.frames, [](const unwind::Frame& frame) {
      return frame.found_by == unwind::FoundBy::signal_frame;
    });
    return fmt::format("the stack at {:#x} was not copied: {}", stack.address,
                       has_handler ? "a signal handler runs on a stack of its own"
                                   : "the probe was hit on another one");
  }
  const bool not_there = stack.end == unwind::End::stack_too_short && stack.address >= copied_to &&
                         stack.address - copy.address < copy.requested;
  if (!not_there) return unwind::explain_end(stack);
  return fmt::format(
      "only {} of {} bytes could be copied: the page at {:#x} was not in memory, or the stack ends "
      "there",
      copy.size, copy.requested, copied_to);
}

} // namespace uprobectl::output
