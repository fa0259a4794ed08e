// SPDX-License-Identifier: Apache-2.0
// Resolves the probes of a task file, or runs its tasks as UprobeStats does.
#pragma once

#include "trace/trace.hpp"
#include "uprobestats/task_file.hpp"

namespace uprobectl::uprobestats {

// The methods that may be probed, and the name of the list in messages.
struct TaskPolicy {
  Policy policy;
  std::string name; // "the policy of user builds", "policy FILE"
};
// Returns the policy of UprobeStats on user builds of Android, otherwise nullopt.
Result<std::optional<TaskPolicy>> read_device_policy(Service service);

// How to resolve the probes of a task file.
struct TaskRequest {
  const TaskFile* file = nullptr; // borrowed
  resolve::TargetOptions where;   // dex.root: sysroot, which also contains file_paths
  std::optional<TaskPolicy> policy;
  Service service = newest_service;
  bool is_service_chosen = false; // by the user: what it rejects is an error
  // See ResolveOptions.
  bool aliases = false;
  resolve::ResolveOptions::Instructions instructions = resolve::ResolveOptions::Instructions::none;
};

// Writes a `match` record for the location of each probe, and a `probe` record with its status.
// Reports errors of single probes and continues.
void resolve_tasks(const TaskRequest& request, output::Output& output);

// How to run the tasks of a task file.
struct TaskRunRequest {
  TaskRequest tasks;
  std::string pin_folder = "/sys/fs/bpf/uprobestats"; // where programs and maps are pinned
  bool wait = false;           // for target processes to start; otherwise a task without one fails
  bool all_or_nothing = false; // end the run if a probe cannot be attached
  std::optional<std::string> statsd; // path of the socket for atoms; nullopt: none are sent
  // Exports of records. Those of stacks alone are not supported: the records have none.
  std::vector<output::ExportRequest> exports = {};
  output::RunHeader header = {};
};

// Runs all tasks at the same time, each for its duration. SIGINT, SIGTERM and SIGHUP end all tasks,
// and their results are reported. Reports errors of single probes and tasks and continues. All
// probes are detached when this returns.
Result<void> run_tasks(const TaskRunRequest& request, output::Output& output);

} // namespace uprobectl::uprobestats
