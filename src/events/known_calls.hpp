// SPDX-License-Identifier: Apache-2.0
// The calls of functions whose prototypes are known: what a run captures of them.
#pragma once

#include "events/prototypes.hpp"

namespace uprobectl::events {

struct CaptureSpec; // events/plan.hpp
struct CapturePhases;

// The maximum sum of the bytes of strings and buffers of one call.
constexpr std::uint32_t max_known_bytes = 512;

struct KnownCall {
  // An argument that is only passed if an earlier one has any of these bits.
  struct Condition {
    std::size_t argument = 0;
    std::string name;
    std::uint64_t bits = 0;
  };
  std::string function;                // its name without a version
  std::vector<ArgumentSpec> arguments; // those that are shown, then what others refer to
  std::size_t shown = 0;
  std::vector<Condition> conditions;
  bool returns_nothing = false;
  std::optional<FailureRule> failure; // of the result, which is `result`
  std::optional<ArgumentSpec> result;
  bool sets_errno = false;
};

// Names of the arguments that lead to errno.
constexpr std::string_view errno_offset_name = "errno offset";
constexpr std::string_view errno_value_name = "errno value";

// Where errno is.
struct ErrnoLocation {
  // The distance from the probed instruction to the pointer-sized word that has the offset of errno
  // from the thread pointer.
  std::int64_t slot = 0;
  // The thread pointer's offset from the address that the kernel has (thread_layout).
  std::int64_t thread_pointer_offset = 0;
};

// Selects what the run captures in these phases: without pairs of calls, memory that the function
// writes is shown as an address. `errno_location`: nullopt if it is not known. `scalars_only`: only
// numbers and strings.
KnownCall make_known_call(const Prototype& prototype, std::string function,
                          const CaptureSpec& capture, const CapturePhases& phases,
                          bool scalars_only, const std::optional<ErrnoLocation>& errno_location);

} // namespace uprobectl::events
