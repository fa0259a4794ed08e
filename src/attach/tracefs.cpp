#include "attach/perf_events.hpp"
#include "bpf/descriptor_limit.hpp"

#include <linux/perf_event.h>

namespace uprobectl {

Result<void> place_tracefs(const Placement& placement, Descriptors& placed) {
  auto events = TracefsEvents::open();
  if (!events) return fail(std::move(events).error());
  placed.events = std::make_unique<TracefsEvents>(std::move(*events));
  const bool has_links = kernel_has_perf_links();
  const PerfBinding binding = has_links ? PerfBinding::link : PerfBinding::ioctl;
  raise_descriptor_limit();

  for (const ProbeSite& site : placement.sites) {
    if (auto may = may_bind(site, binding, has_links); !may) return may;
    // An event for each process: a program can be put onto one only once.
    for (const pid_t pid : placement.pids) {
      if (placement.interrupted()) return fail(interrupted_error());
      const auto id = placed.events->add(site.file, site.offset, site.on_return);
      if (!id) return fail(placement_error(id.error(), site.label, placement.mechanism));
      perf_event_attr attributes{};
      attributes.size = sizeof(attributes);
      attributes.type = PERF_TYPE_TRACEPOINT;
      attributes.config = *id;
      const auto done = place_on_event(attributes, site, pid, binding, placed);
      if (!done) return fail(placement_error(done.error(), site.label, placement.mechanism));
    }
  }
  return {};
}

} // namespace uprobectl
