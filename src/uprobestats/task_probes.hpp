// SPDX-License-Identifier: Apache-2.0
// Resolves the probes of a task file to offsets in files, and finds the registers that contain the
// arguments that a task logs (primitive_argument_positions).
#pragma once

#include "trace/trace.hpp"
#include "uprobectl/art.hpp"
#include "uprobestats/statsd.hpp"
#include "uprobestats/uprobestats.hpp"

#include <map>

namespace uprobectl::uprobestats {

// The parameters of a probed method.
struct LoggedMethod {
  // nullopt for a function of a native library; an error if the parameters of a Java method are
  // unknown.
  Result<std::optional<resolve::JavaMethod>> java = std::nullopt;
  bool is_64bit = true;
};

// Finds the Java method with this signature among those whose code is at the address; methods that
// share code may have different parameters. Fails if the file does not contain its access flags.
Result<resolve::JavaMethod> find_java_method(const art::OatFile& oat, VirtualAddress address,
                                             std::string_view signature);
LoggedMethod logged_method(const resolve::Target& target, const resolve::ProbePoint& point);

// Finds the register in which ART's calling convention passes the parameter at `position` (from 0,
// without `this`). Returns its index among the argument registers of C, in whose order a CallResult
// record contains them (see encode_atom()). If the method is not known, assumes as UprobeStats does
// that each parameter takes one register, after the ArtMethod and `this`.
StatsdArgument locate_argument(const LoggedMethod& method, std::int32_t position);

// Finds the registers for records that do not identify their method: an argument has a register
// only if it is the same for all methods.
std::vector<StatsdArgument> locate_arguments(std::span<const LoggedMethod> methods,
                                             std::span<const std::int32_t> positions);

// Warns about positions whose argument is not in a register, and if the parameters are unknown.
void warn_about_arguments(std::string_view subject, const LoggedMethod& method,
                          std::span<const std::int32_t> positions, output::Output& output);

// Identifies a probe in messages: the numbers of its task and of the probe, from 1.
struct TaskProbeName {
  std::size_t task = 0;
  std::size_t probe = 0;
  const TaskProbe* config = nullptr;  // borrowed
  std::string_view process_name = {}; // of the task; borrowed
};
std::string to_string(const TaskProbeName& name); // "task 1, probe 2 (prog_X_uprobe_y)"

// The result of resolving a probe.
struct TaskProbeResolution {
  std::vector<resolve::ProbePoint>
      points;                 // one for each file that contains the method, as in file_paths
  LoggedMethod method;        // that of the first point
  std::optional<Error> error; // if there are no points
  bool refused = false;       // by the policy
};

// UprobeStats compares names literally. Returns the spelling that it expects if the task file
// spells the method differently.
std::optional<std::string> expected_spelling(const TaskProbe& probe,
                                             const resolve::ProbePoint& point);

// Resolves the probes of a task file. Opens each file once.
class TaskProbeFinder {
public:
  TaskProbeFinder(const TaskRequest& request, output::Output& output)
      : request_(request), output_(output) {}

  enum class Files { first_match, all };
  TaskProbeResolution find(const TaskProbeName& name, Files how_many);

private:
  Result<std::string> local_path(const std::string& file) const;
  const Result<resolve::Target>& open(const std::string& path);
  const std::vector<std::string>& compiled_files(const std::string& process_name);
  Result<resolve::ProbePoint> resolve_in(const std::string& path, const TaskProbe& probe);
  std::optional<Error> check_policy(std::string_view signature, const TaskProbeName& name) const;
  std::optional<Error> check_shared_code(const Result<art::OatFile>& oat,
                                         const resolve::ProbePoint& point,
                                         const TaskProbeName& name) const;

  const TaskRequest& request_;
  output::Output& output_;
  std::map<std::string, Result<resolve::Target>> targets_;         // by path
  std::map<std::string, std::vector<std::string>> compiled_files_; // by name of the process
};

// Reports what the service of the request rejects: as errors if the user chose it, else the first
// one as a warning. Returns false if there were errors.
bool report_service(const TaskRequest& request, output::Output& output);

// Whether a map that another process reads is an error: the user chose the service that rejects it
// (daemon/android/task.rs, update_polled_bpf_maps()).
bool rejects_readers(const TaskRequest& request);

// The status of a probe for its `probe` record.
struct TaskProbeResult {
  std::string_view status; // "resolved", "attached", "failed", "refused"
  const resolve::ProbePoint* point = nullptr;
  std::optional<std::uint64_t> hits = {};
  std::optional<std::size_t> processes_mapping = {};
  std::optional<std::string> reason = {};
};
void report_result(const TaskProbeName& name, const TaskProbeResult& result,
                   output::Output& output);

// Reports the error of a probe: as a message, and as `error` and `probe` records.
void report_failure(const TaskProbeName& name, const Error& error, bool refused,
                    output::Output& output);

} // namespace uprobectl::uprobestats
