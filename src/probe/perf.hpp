// Perf events for uprobes, and BPF programs on them.
#pragma once

#include "probe/placement.hpp"

#include <linux/perf_event.h>

namespace uprobectl {

// How programs come onto perf events in this kernel.
enum class PerfBinding { link, ioctl };

// The ioctl lets wrong kinds of program pass, which take the kernel down at the first hit. So it is
// for programs that this process has loaded as plain ones, and for others only where the kernel is
// older than all other kinds. Also refuses a cookie that could not arrive.
Result<void> may_bind(const ProbeSite& site, PerfBinding binding, bool kernel_has_links);

// Opens the event for the process (0: for all), puts the site's program onto it and enables it. An
// event that got no program stays in `placed`, to be dropped with the others.
std::expected<void, int> place_on_event(perf_event_attr& attributes, const ProbeSite& site,
                                        pid_t pid, PerfBinding binding, Descriptors& placed);

} // namespace uprobectl
