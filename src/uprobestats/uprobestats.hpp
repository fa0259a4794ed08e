// SPDX-License-Identifier: Apache-2.0
// The tasks of a task file: their probes looked up, or run as UprobeStats would.
#pragma once

#include "trace/trace.hpp"
#include "uprobestats/task_file.hpp"

namespace uprobectl {

// Which methods may be probed, and what the list of them is called.
struct TaskPolicy {
  uprobestats::Policy policy;
  std::string name; // "the policy of user builds", "policy FILE"
};
// That of this device: UprobeStats' own where it runs a user build of Android, else none.
Result<std::optional<TaskPolicy>> policy_of_device();

struct TaskRequest {
  const uprobestats::TaskFile* file = nullptr; // borrowed
  TargetOptions where; // dex.root: a system image unpacked there, below which file_paths lie, too
  std::optional<TaskPolicy> policy;
  // Of the places that are found, as in ResolveOptions.
  bool aliases = false;
  ResolveOptions::Instructions instructions = ResolveOptions::Instructions::none;
};

// Shows the place of each probe (`match`), and how it went (`probe`). Errors of single probes are
// reported as they are met.
void resolve_tasks(const TaskRequest& request, Output& output);

struct TaskRunRequest {
  TaskRequest tasks;
  std::string pin_folder = "/sys/fs/bpf/uprobestats"; // where programs and maps are pinned
  bool wait = false;                 // for a process to start; else a task without one has failed
  bool all_or_nothing = false;       // one probe that cannot be placed is the end of all
  std::optional<std::string> statsd; // the socket that atoms go to; nothing: none are made
};

// All tasks at once, each for its own duration. SIGINT, SIGTERM and SIGHUP end all of them well.
// Errors of single probes and tasks are reported as they are met.
// When this returns nothing of ours is left in the kernel.
Result<void> run_tasks(const TaskRunRequest& request, Output& output);

} // namespace uprobectl
