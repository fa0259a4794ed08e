// SPDX-License-Identifier: Apache-2.0
// What to capture at functions whose prototypes are known (share/prototypes), unless --args says
// it, and what the names of their arguments mean. Prototypes are preferred to debug information,
// because they know flags, buffers and errno.
#pragma once

#include "events/argument_lists.hpp"
#include "events/plan.hpp"
#include "trace/binary_cache.hpp"
#include "trace/probes.hpp"

#include <map>

namespace uprobectl::trace {

// Adds the embedded tables that describe libraries among the probed files, after those of the
// user. Does nothing if the run shows no arguments. Fails if an embedded table is invalid.
Result<void> add_embedded_prototypes(events::CaptureSpec& capture, std::span<const Probe> probes);

// Returns null if the function is not known. Its arguments are where the calling convention of its
// machine has them, which need not be that of the host.
const events::Prototype* find_prototype(const events::PrototypeTable& table,
                                        const resolve::ProbePoint& point);

class KnownFunctions {
public:
  // Borrows `capture`, with the prototypes of add_embedded_prototypes(), and `binaries`.
  // `functions`: how many are probed.
  KnownFunctions(const events::CaptureSpec& capture, std::size_t functions, BinaryCache& binaries)
      : capture_(capture), lists_(capture.arguments),
        scalars_only_(functions > events::max_whole_functions), binaries_(binaries) {}

  // Whether at least half of the functions are known, all known ones return, and one of them has a
  // result. If known ones are exported, unknown ones that are not exported do not count.
  bool can_pair(std::span<const events::CapturePoint> points) const;
  // Whether any of the points is a known function that sets errno.
  bool needs_thread_pointer(std::span<const events::CapturePoint> points) const;
  // Sets CapturePoint::known. `finds_errno`: the kernel tells where the thread pointer is.
  void add_to(std::span<events::CapturePoint> points, bool finds_errno);

private:
  const events::Prototype* find(const events::CapturePoint& probed) const;
  bool decides(const events::CapturePoint& probed) const;
  bool reads_errno(const events::CapturePoint& probed) const;
  std::optional<events::ErrnoLocation> find_errno(const resolve::ProbePoint& point);

  const events::CaptureSpec& capture_;
  events::ArgumentListIndex lists_;
  bool scalars_only_;
  struct LibraryErrno {
    VirtualAddress slot; // the GOT entry with the offset of errno
    std::int64_t thread_pointer_offset = 0;
  };
  std::optional<LibraryErrno> find_errno_of_library(const resolve::ProbePoint& point);
  BinaryCache& binaries_;
  std::map<const resolve::ProbedBinary*, std::optional<LibraryErrno>> errno_of_;
};

} // namespace uprobectl::trace
