// SPDX-License-Identifier: Apache-2.0
// Keeps the probes of a run attached to the processes that the user asked for, and detaches those
// that would do harm.
#pragma once

#include "trace/diagnosis.hpp"
#include "trace/file_watch.hpp"
#include "trace/placing.hpp"
#include "trace/process_code.hpp"

namespace uprobectl::trace {

// What the upkeep concerns.
struct UpkeepSpec {
  const Probes& probes;
  probe::Mechanism mechanism;
  bool has_only_fixed_pids = false; // the kernel runs the probes in no other processes
  std::chrono::steady_clock::time_point start;
};

// Borrows its arguments.
class ProbeUpkeep {
public:
  using Time = std::chrono::steady_clock::time_point;

  ProbeUpkeep(UpkeepSpec spec, FilteredProcesses& processes, AttachedProbes& attached,
              FileWatch& files, CodeWatch& code, ProcessHistory& history, SignalWatch& signals,
              output::Output& output)
      : spec_(spec), processes_(processes), attached_(attached), files_(files), code_(code),
        history_(history), signals_(signals), output_(output) {}

  // Attaches the probes again if the kernel's filter has lost a process: the filter selects the
  // memory of the task that had the pid when the links were made (see
  // FilteredProcesses::filter_in_program()). Says what is not attached again.
  void renew_filters();
  // Detaches the probes of files that are opened for writing, and says which files were replaced:
  // their probes stay in the old file. Call it often.
  void follow_files(Time now);

private:
  void warn_about_main_threads();
  void detach_from(std::span<const MappedFile* const> written, const std::string& after, Time now);

  UpkeepSpec spec_;
  FilteredProcesses& processes_;
  AttachedProbes& attached_;
  FileWatch& files_;
  CodeWatch& code_;
  ProcessHistory& history_;
  SignalWatch& signals_;
  output::Output& output_;
};

} // namespace uprobectl::trace
