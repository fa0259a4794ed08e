// The perf event source "uprobe", as sysfs describes it. Both of its numbers differ between
// kernels: Documentation/ABI/testing/sysfs-bus-event_source-devices-format.
#pragma once

#include "uprobectl/base.hpp"

namespace uprobectl {

struct UprobeEventSource {
  std::uint32_t type = 0;        // perf_event_attr.type
  std::uint64_t return_flag = 0; // the bit of perf_event_attr.config that asks for returns
};
Result<UprobeEventSource> read_uprobe_event_source();

} // namespace uprobectl
