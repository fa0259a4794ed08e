// SPDX-License-Identifier: Apache-2.0
// The mechanisms that attach probes. Each attach_…() appends the descriptors that keep its probes
// attached. After an error the caller closes the descriptors that were appended before it.
#pragma once

#include "probe/probe.hpp"
#include "uprobectl/util.hpp"

#include <functional>
#include <linux/perf_event.h>
#include <sys/types.h>

namespace uprobectl::probe {

// Uprobe events of tracefs, created for one attachment. The kernel keeps events until they are
// removed, which the destructor does; by then no perf event may use them. Events of a killed
// process are removed by the next open(). Text format: Linux Documentation/trace/uprobetracer.rst.
class TracefsEvents {
public:
  // Opens uprobe_events and removes the events of processes that have ended. Errors: unsupported,
  // not_permitted.
  static Result<TracefsEvents> open();

  TracefsEvents(TracefsEvents&&) noexcept = default;
  TracefsEvents& operator=(TracefsEvents&&) noexcept = default;
  ~TracefsEvents() { remove(); }

  struct Location {
    int file = -1; // passed to the kernel as /proc/self/fd/N, so that renames do not matter
    FileOffset offset;
    std::optional<FileOffset> semaphore = {};
  };
  // Creates one event with all the locations, which must be distinct. Returns its id for
  // perf_event_open(2), or an errno: EOPNOTSUPP if the kernel supports only one location per event,
  // ECANCELED if `interrupted`, called before each location, returns true.
  std::expected<std::uint64_t, int> add(std::span<const Location> locations, bool on_return,
                                        const std::function<bool()>& interrupted);
  // Removes the events in reverse order. Retries while an event is in use, then leaves it for the
  // next open().
  void remove();

private:
  TracefsEvents(std::string folder, UniqueFd commands);
  std::expected<void, int> write_command(const std::string& text) const;
  void remove_leftovers() const;
  std::size_t count_locations(const std::string& name) const;

  std::string folder_;
  std::string group_;
  UniqueFd commands_; // uprobe_events
  std::vector<std::string> names_;
  std::size_t next_ = 0; // number for the next name
};

// The descriptors that keep probes attached.
struct ProbeDescriptors {
  std::unique_ptr<TracefsEvents> events; // destroyed last: events in use cannot be removed
  std::vector<UniqueFd> perf_events;
  std::vector<UniqueFd> links;
};

// The arguments of an attach_…() function.
struct MechanismRequest {
  Mechanism mechanism;
  std::span<const ProbeSite> sites;
  std::span<const pid_t> pids; // {0} for all processes
  const std::function<bool()>& interrupted;
};

Result<void> attach_multi(const MechanismRequest& plan, ProbeDescriptors& descriptors);
Result<void> attach_perf(const MechanismRequest& plan,
                         ProbeDescriptors& descriptors); // also perf_ioctl
Result<void> attach_tracefs(const MechanismRequest& plan, ProbeDescriptors& descriptors);

Error interrupted_error();
Error semaphore_error(const std::string& label); // not supported by this kernel

// Translates an errno of attaching to an error with hints.
Error attach_error(int errnum, const std::string& label, const MechanismRequest& plan);

// Returns "/proc/self/fd/N", a path to pass to the kernel, valid even if the file is renamed.
std::string descriptor_path(int fd);

// How a program is attached to a perf event: by a BPF link, or by PERF_EVENT_IOC_SET_BPF.
enum class PerfBinding { link, ioctl };

// Checks that a program may be attached in this way. The ioctl also accepts multi and session
// programs, which crash the kernel at the first hit. So it is allowed for programs that this
// process loaded as plain ones. For others it is allowed only on kernels without BPF links, which
// have no such programs. Also rejects a cookie that the program would not get.
Result<void> check_binding(const ProbeSite& site, PerfBinding binding, bool kernel_has_links);

// Opens the event for a process (0 for all), attaches the site's program to it and enables it.
// After an error `descriptors` may contain an event without a program.
std::expected<void, int> attach_to_perf_event(perf_event_attr& attributes, const ProbeSite& site,
                                              pid_t pid, PerfBinding binding,
                                              ProbeDescriptors& descriptors);

} // namespace uprobectl::probe
