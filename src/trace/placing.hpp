// SPDX-License-Identifier: Apache-2.0
// Gets the probes of a run into place: all of them, or with keep_going those the kernel takes.
#pragma once

#include "output/output.hpp"
#include "trace/probe_program.hpp"
#include "trace/run_loop.hpp"

#include <chrono>

namespace uprobectl {

// How long it takes to do many things one by one, as soon as the first ones tell.
class DurationEstimate {
public:
  using Clock = std::chrono::steady_clock;

  DurationEstimate(std::size_t all, Clock::time_point start) : all_(all), start_(start) {}

  // The time for all of them if it is more than 2 s, once; nothing in the first 100 ms.
  std::optional<Clock::duration> estimate(std::size_t done, Clock::time_point now);

private:
  std::size_t all_;
  Clock::time_point start_;
  bool reported_ = false;
};

struct AttachedProbes {
  std::optional<Attachment> attachment; // nothing where there was no site
  std::size_t probes = 0;               // sites, by process where processes are named
};

// The program is loaded for the mechanism, attached to the processes (none: to all) and not
// started. Where the kernel refuses single places, which skip_unprobeable() did not know of,
// they are found by halving. Those of patterns are left out with a warning. With keep_going the
// others move from the probes to the failures, reported, and the rest is attached, else the first
// refusal is the error.
Result<AttachedProbes> attach_probes(std::span<const pid_t> pids, bool keep_going,
                                     Mechanism mechanism, ProbeProgram& program,
                                     ResolvedProbes& resolved, SignalWatch& signals,
                                     Output& output);

// Detaches, which takes its time where there are many perf events; on a terminal it says how far it
// is.
void detach_probes(AttachedProbes& attached, Output& output);

// Whether the files are still what was resolved in them: io where one was written to since it was
// opened, and its offsets may be those of other code.
Result<void> check_unmodified(std::span<const Probe> probes);
Result<void> check_unmodified(const MappedFile& file);

// One that was replaced is no failure: its probes are in the file that was opened.
void warn_about_replaced_files(std::span<const Probe> probes, Output& output);

} // namespace uprobectl
