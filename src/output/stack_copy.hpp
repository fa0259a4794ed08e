// SPDX-License-Identifier: Apache-2.0
// Whether an unwound stack is complete, given how much of it was copied.
#pragma once

#include "output/records.hpp"

namespace uprobectl::output {

// The part of a stack's memory that was copied at a hit.
struct StackCopy {
  std::uint64_t address = 0;
  std::uint64_t size = 0;      // bytes
  std::uint32_t requested = 0; // bytes, by --stack-size
};

StackCompleteness completeness_of(const unwind::Stack& stack, const StackCopy& copy);
// Returns why the stack is incomplete.
std::string explain_incomplete(const unwind::Stack& stack, const StackCopy& copy);

} // namespace uprobectl::output
