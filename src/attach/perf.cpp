#include "attach/perf_events.hpp"
#include "bpf/descriptor_limit.hpp"
#include "bpf/event_source.hpp"

namespace uprobectl {

namespace {

// The part of perf_event_attr.config that says where the semaphore is.
Result<std::uint64_t> semaphore_bits(const ProbeSite& site, const UprobeEventSource& source) {
  if (!site.semaphore) return 0;
  if (!source.semaphore_shift) return fail(no_semaphores(site.label));
  const std::uint64_t bits = site.semaphore->value << *source.semaphore_shift;
  if (bits >> *source.semaphore_shift != site.semaphore->value)
    return fail(Error{ErrorKind::unsupported,
                      site.label + ": its semaphore lies beyond what a perf event can be told"}
                    .hint("use --mechanism multi or tracefs"));
  return bits;
}

} // namespace

Result<void> place_perf(const Placement& placement, Descriptors& placed) {
  const auto source = read_uprobe_event_source();
  if (!source) return fail(source.error());
  const PerfBinding binding =
      placement.mechanism == Mechanism::perf_ioctl ? PerfBinding::ioctl : PerfBinding::link;
  const bool has_links = binding == PerfBinding::link || kernel_has_perf_links();
  raise_descriptor_limit();

  for (const ProbeSite& site : placement.sites) {
    if (auto may = may_bind(site, binding, has_links); !may) return may;
    const auto semaphore = semaphore_bits(site, *source);
    if (!semaphore) return fail(semaphore.error());
    const std::string path = descriptor_path(site.file);
    for (const pid_t pid : placement.pids) {
      if (placement.interrupted()) return fail(interrupted_error());
      perf_event_attr attributes{};
      attributes.size = sizeof(attributes);
      attributes.type = source->type;
      attributes.config = *semaphore | (site.on_return ? source->return_flag : 0);
      attributes.config1 = reinterpret_cast<std::uintptr_t>(path.c_str());
      attributes.config2 = site.offset.value;
      const auto done = place_on_event(attributes, site, pid, binding, placed);
      if (!done) return fail(placement_error(done.error(), site.label, placement.mechanism));
    }
  }
  return {};
}

} // namespace uprobectl
