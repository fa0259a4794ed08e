// Task files of UprobeStats: `resolve --config`, `attach --config`.
#pragma once

#include "console.hpp"
#include "uprobectl/uprobestats.hpp"

namespace uprobectl::cli {

struct TaskFileOptions {
  std::optional<std::string> config; // --config: the task file
  std::optional<std::string> policy; // --policy: a file of prefixes, or "builtin"
  std::optional<std::string> binary; // --binary, of resolve
};
void add_task_file_options(OptionParser& parser, TaskFileOptions& options);

// usage error where an option does not go with the others. `asks_otherwise`: something else says
// what is asked.
Result<void> check_task_file_options(const OptionParser& parser, const TaskFileOptions& options,
                                     bool asks_otherwise);

// The file of --config; what is odd about it is told.
Result<uprobestats::TaskFile> read_tasks(const TaskFileOptions& options, Console& console);
// That of --policy, or the device's.
Result<std::optional<TaskPolicy>> read_policy(const TaskFileOptions& options);

// What attach takes besides.
struct TaskRunOptions {
  TaskFileOptions file;
  std::optional<std::string> pin_folder; // --bpffs
  bool wait = false;
  bool all_or_nothing = false;
  std::optional<std::string> statsd; // --statsd, the socket
};
void add_task_run_options(OptionParser& parser, TaskRunOptions& options);
// usage error where one of them was given without --config.
Result<void> check_task_run_options(const OptionParser& parser, const TaskRunOptions& options);

// `attach --config`: the arguments are read anew, as most options of attach say what a task file
// says.
ExitCode attach_task_file(OptionParser::Text text, std::span<const std::string_view> arguments);

ExitCode resolve_task_file(const TaskFileOptions& options, const TargetOptions& where,
                           const ResolveOptions& how, Console& console);

} // namespace uprobectl::cli
