// The ways to place sites. Each appends the descriptors that keep its probes in place, and
// leaves what it has appended behind when it fails: the caller drops all of them.
#pragma once

#include "probe/probe.hpp"
#include "probe/tracefs.hpp"

namespace uprobectl {

struct Descriptors {
  std::unique_ptr<TracefsEvents> events; // go last: the kernel keeps those that are used
  std::vector<UniqueFd> perf_events;
  std::vector<UniqueFd> links;
};

struct Placement {
  Mechanism mechanism;
  std::span<const ProbeSite> sites;
  std::span<const pid_t> pids; // {0}: every process
  const std::function<bool()>& interrupted;
};

Result<void> place_multi(const Placement& placement, Descriptors& placed);
Result<void> place_perf(const Placement& placement, Descriptors& placed); // perf_ioctl, too
Result<void> place_tracefs(const Placement& placement, Descriptors& placed);

Error interrupted_error();
Error no_semaphores(const std::string& label); // this kernel counts none up

// What the kernel's refusal means for somebody who wanted a probe there.
Error placement_error(int errnum, const std::string& label, Mechanism mechanism);

// The path under which the kernel finds an open file again, whatever its name is by now.
std::string descriptor_path(int fd);

} // namespace uprobectl
