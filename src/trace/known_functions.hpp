// SPDX-License-Identifier: Apache-2.0
// What to capture at functions whose prototypes are known (share/prototypes), unless --args says
// it. They come before debug information: they know flags, buffers and errno.
#pragma once

#include "events/argument_lists.hpp"
#include "events/plan.hpp"

#include <map>

namespace uprobectl {

class KnownFunctions {
public:
  // Borrows `capture`. Fails if an embedded table is invalid.
  static Result<KnownFunctions> make(const CaptureSpec& capture,
                                     std::span<const CapturePoint> points);

  // Whether most of the points are known functions, one of them has a result, and all return.
  bool can_pair(std::span<const CapturePoint> points) const;
  // Whether any of the points is a known function that sets errno.
  bool needs_thread_pointer(std::span<const CapturePoint> points) const;
  // Sets CapturePoint::known. `capture` is the one of make(), apart from its thread pointer.
  void add_to(std::span<CapturePoint> points, const CaptureSpec& capture);

private:
  KnownFunctions(const CaptureSpec& capture, std::size_t functions)
      : lists_(capture.arguments), list_count_(capture.arguments.size()),
        scalars_only_(functions > max_whole_functions) {}

  const Prototype* find(const CapturePoint& probed) const;
  // The distance from the point to the GOT entry with the offset of errno.
  std::optional<std::int64_t> find_errno_slot(const ProbePoint& point);

  ArgumentListIndex lists_;
  std::size_t list_count_;
  bool scalars_only_;
  PrototypeTable table_; // empty if the run shows no arguments
  std::map<const ProbedBinary*, std::optional<VirtualAddress>> errno_slots_;
};

} // namespace uprobectl
