// SPDX-License-Identifier: Apache-2.0
// Task files of UprobeStats: `resolve --config`, `attach --config`.
#pragma once

#include "console.hpp"
#include "uprobestats/uprobestats.hpp"

namespace uprobectl::cli {

struct TaskFileOptions {
  std::optional<std::string> config;  // --config: the task file
  std::optional<std::string> policy;  // --policy: a file of prefixes, or "builtin"
  std::optional<std::string> service; // --service
  std::optional<std::string> binary;  // --binary, of resolve
};
void bind_task_file_options(OptionParser& parser, TaskFileOptions& options);

// Reads the file of --config and prints its warnings.
Result<uprobestats::TaskFile> read_tasks(const TaskFileOptions& options, output::Output& output);
// Returns the service of --service, that of the device or of the sysroot `root`, or the newest one.
uprobestats::Service choose_service(const TaskFileOptions& options,
                                    const std::optional<std::string>& root);
// Reads the policy of --policy, or that of the device.
Result<std::optional<uprobestats::TaskPolicy>>
read_policy(const TaskFileOptions& options, uprobestats::Service service, Workstation& workstation);

// The options of attach.
struct TaskRunOptions {
  TaskFileOptions file;
  std::optional<std::string> pin_folder; // --bpffs
  bool wait = false;
  bool all_or_nothing = false;
  std::optional<std::string> statsd; // --statsd, the socket
  std::optional<std::string> save;   // --save, which is one of all runs
};
void bind_task_run_options(OptionParser& parser, TaskRunOptions& options);

// Runs `attach --config`; `arguments` are those that `parser` has parsed, `title` is the command
// line.
ExitCode attach_task_file(const OptionParser& parser, const Arguments& arguments,
                          const TaskRunOptions& options, std::string title,
                          resolve::TargetOptions where, const CommonOptions& common);

ExitCode resolve_task_file(const TaskFileOptions& options, const resolve::TargetOptions& where,
                           const resolve::ResolveOptions& how, output::Output& output);

} // namespace uprobectl::cli
