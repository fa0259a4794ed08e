// SPDX-License-Identifier: Apache-2.0
#include "probe/mechanisms.hpp"

#include "bpf/bpf.hpp"
#include "bpf/link.hpp"
#include "bpf/load_error.hpp"

#include <cerrno>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace uprobectl::probe {

namespace {

std::expected<void, int> bind(const ProbeSite& site, int event, PerfBinding binding,
                              ProbeDescriptors& descriptors) {
  if (binding == PerfBinding::ioctl) {
    if (::ioctl(event, PERF_EVENT_IOC_SET_BPF, site.program.fd) != 0) return std::unexpected(errno);
    return {};
  }
  auto link = bpf::create_perf_event_link(site.program.fd, event, site.cookie);
  if (!link) return std::unexpected(link.error());
  descriptors.links.push_back(std::move(*link));
  return {};
}

} // namespace

Result<void> check_binding(const ProbeSite& site, PerfBinding binding, bool kernel_has_links) {
  if (binding == PerfBinding::link) return {};
  if (site.program.kind != bpf::ProgramKind::plain ||
      (!site.program.loaded_by_us && kernel_has_links))
    return fail(Error{ErrorKind::unsupported,
                      site.label + ": a program loaded by another process cannot be attached to a "
                                   "perf event by ioctl"}
                    .hint("the ioctl does not check the kind of program: a wrong one crashes the "
                          "kernel at the first hit")
                    .hint("use --mechanism perf, which lets the kernel check the program"));
  if (site.cookie != 0)
    return fail(Error{ErrorKind::unsupported, site.label + ": cookies need BPF links"}.hint(
        "use --mechanism perf (Linux 5.15) or multi (Linux 6.6)"));
  return {};
}

std::expected<void, int> attach_to_perf_event(perf_event_attr& attributes, const ProbeSite& site,
                                              pid_t pid, PerfBinding binding,
                                              ProbeDescriptors& descriptors) {
  // Without a pid the event is opened on CPU 0, but its BPF program runs for hits on every CPU.
  const long fd = ::syscall(SYS_perf_event_open, &attributes, pid > 0 ? pid : -1, pid > 0 ? -1 : 0,
                            -1, PERF_FLAG_FD_CLOEXEC);
  if (fd < 0) return std::unexpected(errno);
  // Add the event before its link is created: a link must not outlive its event.
  descriptors.perf_events.emplace_back(static_cast<int>(fd));
  const int event = descriptors.perf_events.back().get();
  if (auto bound = bind(site, event, binding, descriptors); !bound) return bound;
  if (::ioctl(event, PERF_EVENT_IOC_ENABLE, 0) != 0) return std::unexpected(errno);
  return {};
}

namespace {

// The bits of perf_event_attr.config with the offset of the semaphore.
Result<std::uint64_t> semaphore_bits(const ProbeSite& site, const bpf::UprobeEventSource& source) {
  if (!site.semaphore) return 0;
  if (!source.semaphore_shift) return fail(semaphore_error(site.label));
  const std::uint64_t bits = site.semaphore->value << *source.semaphore_shift;
  if (bits >> *source.semaphore_shift != site.semaphore->value)
    return fail(Error{ErrorKind::unsupported,
                      site.label + ": the offset of its semaphore does not fit into a perf event"}
                    .hint("use --mechanism multi or tracefs"));
  return bits;
}

} // namespace

Result<void> attach_perf(const MechanismRequest& plan, ProbeDescriptors& descriptors) {
  const auto source = bpf::read_uprobe_event_source();
  if (!source) return fail(source.error());
  const PerfBinding binding =
      plan.mechanism == Mechanism::perf_ioctl ? PerfBinding::ioctl : PerfBinding::link;
  const bool has_links = binding == PerfBinding::link || bpf::kernel_has_perf_links();
  bpf::raise_descriptor_limit();

  for (const ProbeSite& site : plan.sites) {
    if (auto checked = check_binding(site, binding, has_links); !checked) return checked;
    const auto semaphore = semaphore_bits(site, *source);
    if (!semaphore) return fail(semaphore.error());
    const std::string path = descriptor_path(site.file);
    for (const pid_t pid : plan.pids) {
      if (plan.interrupted()) return fail(interrupted_error());
      perf_event_attr attributes{};
      attributes.size = sizeof(attributes);
      attributes.type = source->type;
      attributes.config = *semaphore | (site.on_return ? source->return_flag : 0);
      attributes.config1 = reinterpret_cast<std::uintptr_t>(path.c_str());
      attributes.config2 = site.offset.value;
      const auto done = attach_to_perf_event(attributes, site, pid, binding, descriptors);
      if (!done) return fail(attach_error(done.error(), site.label, plan));
    }
  }
  return {};
}

} // namespace uprobectl::probe
