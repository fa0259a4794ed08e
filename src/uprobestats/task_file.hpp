// SPDX-License-Identifier: Apache-2.0
// Task files of Android's UprobeStats: which methods to probe in which processes for how long, and
// which atoms to log. Source: AOSP packages/modules/UprobeStats (config.proto, UprobeStats.cpp,
// ConfigUtil.cpp, Guardrail.cpp).
#pragma once

#include "uprobectl/util.hpp"
#include "uprobestats/binder_filter.hpp"
#include "uprobestats/service.hpp"

#include <chrono>

namespace uprobectl::uprobestats {

// One method and the BPF program to attach to it.
struct TaskProbe {
  std::string bpf_name; // file name of the program's pin
  // In order of preference, absolute. Empty: the method is searched in the compiled files of the
  // process, as the service of Android 16 does.
  std::vector<std::string> file_paths;
  std::string method;           // a FUNCTION: a method's signature, or class.method, or a symbol
  bool has_parameters = false;  // `method` includes the parameters
  bool by_signature = false;    // `method` is method_signature, not class, name and parameters
  BinderFilters filters;        // of the Binder program
  bool ignores_filters = false; // has filters, but another program
  std::optional<Error> problem; // why the probe cannot be used
};

// The statsd_logging_config of a task.
struct TaskLogging {
  std::int64_t atom_id = 0;
  std::vector<std::int32_t> primitive_argument_positions;
};

// The probes of one target process, for one duration.
struct Task {
  std::vector<TaskProbe> probes;
  std::vector<std::string> bpf_maps; // file names or paths of the maps' pins
  std::string target_process_name;   // argv[0], which Android sets to the process name
  std::chrono::seconds duration{0};
  bool on_start = false; // wait for the process to start
  bool any_app = false;  // the first app that starts, of whatever name
  std::optional<TaskLogging> logging;
  std::optional<std::int64_t> id;
  std::optional<Error> problem; // why the task cannot be run
};

// A parsed task file.
struct TaskFile {
  proto::UprobestatsConfig config;   // the messages that `tasks` are made from
  std::vector<Task> tasks;           // at least one
  std::string binary;                // the binary form in the current numbering
  std::vector<std::string> warnings; // for example about unknown fields
};

// Parses the text or the binary form, in either numbering. Fails with corrupt, naming the position,
// if the file is malformed; with usage if it has no task; with ambiguous if the binary form fits
// both numberings. An invalid task or probe is not a failure: its `problem` is set.
Result<TaskFile> read_task_file(Bytes file);

// Returns the signature without its return type: "com.foo.Bar.baz(int)" for
// "void com.foo.Bar.baz(int)".
std::string_view without_return_type(std::string_view signature);

// A list of prefixes of the methods that may be probed.
class Policy {
public:
  // The methods that UprobeStats allows on user builds of Android.
  static Policy builtin(Service service = newest_service);
  // Parses one prefix per line; '#' begins a comment. Fails with corrupt, naming the line.
  static Result<Policy> parse(std::string_view text);

  // Returns the prefix that allows the method: the method equals it or continues with '.', '$' or
  // '('. Spaces between parameters are ignored.
  std::optional<std::string_view> find_prefix(std::string_view method) const;
  // Whether a prefix consists of this name and parameters, and so allows an overload of the method.
  bool has_overload(std::string_view name) const;
  // Whether the program may be attached to any method.
  bool allows_program(std::string_view bpf_name) const;
  // Makes the error for a method that no prefix allows (not_permitted). `name`: of the policy.
  Error make_refusal(std::string_view method, std::string_view name) const;

private:
  std::vector<std::string> prefixes_;
  std::vector<std::string> programs_; // allowed for any method
};

} // namespace uprobectl::uprobestats
