// SPDX-License-Identifier: Apache-2.0
// The ways to place sites. Each appends the descriptors that keep its probes in place, and
// leaves what it has appended behind when it fails: the caller drops all of them.
#pragma once

#include "probe/probe.hpp"
#include "uprobectl/util.hpp"

#include <functional>
#include <linux/perf_event.h>
#include <sys/types.h>

namespace uprobectl {

// Uprobe events of tracefs, made for one attachment. Source of the text format: Linux
// Documentation/trace/uprobetracer.rst. The kernel keeps events until they are removed: the
// destructor does it, once nothing uses them any more. Those of a killed process stay until the
// next one opens this.
class TracefsEvents {
public:
  // Takes away what processes that have ended left behind. unsupported, not_permitted.
  static Result<TracefsEvents> open();

  TracefsEvents(TracefsEvents&&) noexcept = default;
  TracefsEvents& operator=(TracefsEvents&&) noexcept = default;
  ~TracefsEvents() { remove(); }

  struct Place {
    int file = -1; // given to the kernel as a descriptor: it looks it up while this runs, so
                   // neither a rename nor an odd name matters
    FileOffset offset;
    std::optional<FileOffset> semaphore = {};
  };
  // Makes one event of all the places, which are different ones, and tells its id for
  // perf_event_open(2). An errno; EOPNOTSUPP where the kernel wants an event for each place, and
  // ECANCELED after `interrupted`, which is asked before each place.
  std::expected<std::uint64_t, int> add(std::span<const Place> places, bool on_return,
                                        const std::function<bool()>& interrupted);
  // The last first. What is still used after some tries is left for the next run.
  void remove();

private:
  TracefsEvents(std::string folder, UniqueFd commands);
  std::expected<void, int> command(const std::string& text) const;
  void remove_leftovers() const;
  std::size_t places_of(const std::string& name) const;

  std::string folder_;
  std::string group_;
  UniqueFd commands_; // uprobe_events
  std::vector<std::string> names_;
  std::size_t next_ = 0; // number for the next name
};

struct ProbeDescriptors {
  std::unique_ptr<TracefsEvents> events; // go last: the kernel keeps those that are used
  std::vector<UniqueFd> perf_events;
  std::vector<UniqueFd> links;
};

struct AttachPlan {
  Mechanism mechanism;
  std::span<const ProbeSite> sites;
  std::span<const pid_t> pids; // {0}: every process
  const std::function<bool()>& interrupted;
};

Result<void> attach_multi(const AttachPlan& plan, ProbeDescriptors& descriptors);
Result<void> attach_perf(const AttachPlan& plan, ProbeDescriptors& descriptors); // perf_ioctl, too
Result<void> attach_tracefs(const AttachPlan& plan, ProbeDescriptors& descriptors);

Error interrupted_error();
Error semaphore_error(const std::string& label); // this kernel counts none up

// What the kernel's refusal means for somebody who wanted a probe there.
Error attach_error(int errnum, const std::string& label, Mechanism mechanism);

// The path under which the kernel finds an open file again, whatever its name is by now.
std::string descriptor_path(int fd);

// How programs come onto perf events in this kernel.
enum class PerfBinding { link, ioctl };

// The ioctl lets wrong kinds of program pass, which take the kernel down at the first hit. So it is
// for programs that this process has loaded as plain ones, and for others only where the kernel is
// older than all other kinds. Also refuses a cookie that could not arrive.
Result<void> check_binding(const ProbeSite& site, PerfBinding binding, bool kernel_has_links);

// Opens the event for the process (0: for all), puts the site's program onto it and enables it. An
// event that got no program stays in `descriptors`, to be dropped with the others.
std::expected<void, int> attach_to_perf_event(perf_event_attr& attributes, const ProbeSite& site,
                                              pid_t pid, PerfBinding binding,
                                              ProbeDescriptors& descriptors);

} // namespace uprobectl
