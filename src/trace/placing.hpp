// SPDX-License-Identifier: Apache-2.0
// Attaches the probes of a run: all of them, or with keep_going those that the kernel accepts.
#pragma once

#include "output/output.hpp"
#include "trace/process_filter.hpp"
#include "trace/program_source.hpp"
#include "trace/run_loop.hpp"

#include <chrono>
#include <set>

namespace uprobectl::trace {

// Estimates how long many equal operations take, from the time that the first ones took.
class DurationEstimate {
public:
  using Clock = std::chrono::steady_clock;

  // `all`: the number of operations. They begin at `start`.
  DurationEstimate(std::size_t all, Clock::time_point start) : all_(all), start_(start) {}

  // Returns the expected total time, once, if it exceeds 2 s. Returns nullopt during the first 100
  // ms.
  std::optional<Clock::duration> estimate(std::size_t done, Clock::time_point now);

private:
  std::size_t all_;
  Clock::time_point start_;
  bool reported_ = false;
};

// The attached probes of a run. Detaches them when destroyed.
struct AttachedProbes {
  std::optional<probe::Attachment> attachment; // nullopt if there are no sites
  std::size_t probes = 0; // sites, times the number of processes if processes are given
  std::set<FileIdentity> left_out = {}; // files whose probes are not attached any more
};

// Loads the program as requested and attaches it to the processes (none: system-wide); the
// program is not started. Sites that the kernel rejects although skip_unprobeable() accepted them
// are found by bisection. With keep_going their probes are reported and moved to the failures, and
// the others are attached. Otherwise the first rejection is the error.
Result<AttachedProbes> attach_probes(std::span<const pid_t> pids, bool keep_going,
                                     const LoadRequest& load, ProgramSource& program,
                                     ResolvedProbes& resolved, SignalWatch& signals,
                                     output::Output& output);

// Attaches the probes anew, to the tasks that the processes have now, with the programs that
// attach_probes() has loaded. Returns false if they are not attached any more, or if all the
// processes have ended.
Result<bool> attach_again(FilteredProcesses& processes, probe::Mechanism mechanism,
                          const Probes& probes, SignalWatch& signals, AttachedProbes& attached);

// Detaches the probes of the files for the rest of the run, and attaches those of other files
// again. An error concerns the latter.
Result<void> detach_files(std::span<const MappedFile* const> files, FilteredProcesses& processes,
                          probe::Mechanism mechanism, const Probes& probes, SignalWatch& signals,
                          AttachedProbes& attached);

// Detaches the probes. This takes long for many perf events, so progress is shown on a terminal.
void detach_probes(AttachedProbes& attached, output::Output& output);

} // namespace uprobectl::trace
