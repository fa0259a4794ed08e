// The perf event source "uprobe", as sysfs describes it. Both of its numbers differ between
// kernels: Documentation/ABI/testing/sysfs-bus-event_source-devices-format.
#pragma once

#include "uprobectl/util.hpp"

namespace uprobectl {

struct UprobeEventSource {
  std::uint32_t type = 0;        // perf_event_attr.type
  std::uint64_t return_flag = 0; // the bit of perf_event_attr.config that asks for returns
  // The lowest bit of a semaphore's offset in perf_event_attr.config, which has all bits from there
  // on; nothing where the kernel knows no semaphores (before Linux commit a6ca88b241d5,
  // "trace_uprobe: support reference counter in fd-based uprobe", in v4.20).
  std::optional<std::uint32_t> semaphore_shift = {};
};
Result<UprobeEventSource> read_uprobe_event_source();

} // namespace uprobectl
