#include "attach/placement.hpp"
#include "bpf/link_create.hpp"

#include <cerrno>
#include <charconv>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace uprobectl {

namespace {

// The uprobe event source's number and the config bit that asks for returns. Both differ between
// kernels: Documentation/ABI/testing/sysfs-bus-event_source-devices-format.
struct EventSource {
  std::uint32_t type = 0;
  std::uint64_t return_flag = 0;
};

Result<std::string> read_sysfs(const std::string& name) {
  const std::string path = "/sys/bus/event_source/devices/uprobe/" + name;
  const UniqueFd fd{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (!fd) return fail(system_error(errno, path));
  char text[64];
  const ssize_t size = ::read(fd.get(), text, sizeof(text));
  if (size < 0) return fail(system_error(errno, path));
  return std::string(text, static_cast<std::size_t>(size));
}

std::optional<std::uint32_t> leading_number(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  return value;
}

Result<EventSource> read_event_source() {
  const auto type = read_sysfs("type");
  if (!type) return fail(type.error());
  const auto format = read_sysfs("format/retprobe"); // "config:0"
  if (!format) return fail(format.error());
  constexpr std::string_view field = "config:";
  const auto number = leading_number(*type);
  const auto bit = format->starts_with(field)
                       ? leading_number(std::string_view(*format).substr(field.size()))
                       : std::nullopt;
  if (!number || !bit || *bit > 63)
    return fail(ErrorKind::unsupported, "the kernel describes its uprobe perf events as type '" +
                                            *type + "', retprobe '" + *format + "'");
  return EventSource{.type = *number, .return_flag = 1ULL << *bit};
}

std::expected<UniqueFd, int> open_event(const EventSource& source, const ProbeSite& site,
                                        pid_t pid) {
  const std::string path = descriptor_path(site.file);
  perf_event_attr attributes{};
  attributes.size = sizeof(attributes);
  attributes.type = source.type;
  attributes.config = site.on_return ? source.return_flag : 0;
  attributes.config1 = reinterpret_cast<std::uintptr_t>(path.c_str());
  attributes.config2 = site.offset.value;
  // Without a pid the event is opened on CPU 0, but its BPF program runs wherever the probe is hit.
  const long fd = ::syscall(SYS_perf_event_open, &attributes, pid > 0 ? pid : -1, pid > 0 ? -1 : 0,
                            -1, PERF_FLAG_FD_CLOEXEC);
  if (fd < 0) return std::unexpected(errno);
  return UniqueFd{static_cast<int>(fd)};
}

// Two descriptors a probe: the usual soft limit of 1024 ends at 500 probes.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit); // a refusal shows as EMFILE where it matters
}

} // namespace

Result<void> place_perf(const Placement& placement, Descriptors& placed) {
  const auto source = read_event_source();
  if (!source) return fail(source.error());
  raise_descriptor_limit();

  for (const ProbeSite& site : placement.sites) {
    for (const pid_t pid : placement.pids) {
      if (placement.interrupted()) return fail(interrupted_error());
      auto event = open_event(*source, site, pid);
      if (!event) return fail(placement_error(event.error(), site.label, Mechanism::perf));
      // The event goes into the list first: a link must never outlive what it hangs on.
      placed.perf_events.push_back(std::move(*event));
      const int event_fd = placed.perf_events.back().get();
      auto link = create_perf_event_link(site.program.fd, event_fd, site.cookie);
      if (!link) return fail(placement_error(link.error(), site.label, Mechanism::perf));
      placed.links.push_back(std::move(*link));
      if (::ioctl(event_fd, PERF_EVENT_IOC_ENABLE, 0) != 0)
        return fail(placement_error(errno, site.label, Mechanism::perf));
    }
  }
  return {};
}

} // namespace uprobectl
