// SPDX-License-Identifier: Apache-2.0
// The probes of a task file -> places in files, and the registers that hold the arguments that a
// task logs (primitive_argument_positions).
#pragma once

#include "trace/trace.hpp"
#include "uprobectl/art.hpp"
#include "uprobestats/statsd.hpp"
#include "uprobestats/uprobestats.hpp"

#include <map>

namespace uprobectl {

// A probe's method, as far as its arguments are concerned.
struct LoggedMethod {
  // Nothing for a library's function; an error where it is not known what a Java method takes.
  Result<std::optional<JavaMethod>> java = std::nullopt;
  bool is_64bit = true;
};

// The method of this signature, whose code is at the address: methods that share code may differ in
// what they take. An error where the file does not say it.
Result<JavaMethod> method_called(const art::OatFile& oat, VirtualAddress address,
                                 std::string_view signature);
LoggedMethod logged_method(const Target& target, const ProbePoint& point);

// Of a parameter, from 0 without `this`: where ART's compiler has its callers put it, among the
// registers that carry arguments in C's order, as our GenericInstrumentation.o has them on every
// machine and Android's on arm64. What is not a known method's is where UprobeStats takes it from:
// behind the ArtMethod and `this`, the parameters before it in a register each.
StatsdArgument argument_at(const LoggedMethod& method, std::int32_t position);

// Of several methods' records, which do not say whose they are: what all agree about.
std::vector<StatsdArgument> arguments_at(std::span<const LoggedMethod> methods,
                                         std::span<const std::int32_t> positions);

// Warns of positions that no register has, and where it is not known which one has them.
void warn_about_arguments(std::string_view subject, const LoggedMethod& method,
                          std::span<const std::int32_t> positions, Output& output);

// Which probe of which task, from 1, as messages call it.
struct TaskProbeName {
  std::size_t task = 0;
  std::size_t probe = 0;
  const uprobestats::TaskProbe* spec = nullptr; // borrowed
};
std::string to_string(const TaskProbeName& name); // "task 1, probe 2 (prog_X_uprobe_y)"

struct TaskProbeAnswer {
  std::vector<ProbePoint> points; // one for each of its files that has it, in their order
  LoggedMethod method;            // as the first of them has it
  std::optional<Error> error;     // where there is none
  bool refused = false;           // by the policy
};

// How a method's file spells what the service compares letter by letter, where the task file spells
// it otherwise.
std::optional<std::string> service_spelling(const uprobestats::TaskProbe& probe,
                                            const ProbePoint& point);

// Opens each file once, however many probes are in it.
class TaskProbeFinder {
public:
  TaskProbeFinder(const TaskRequest& request, Output& output)
      : request_(request), output_(output) {}

  enum class Files { first_that_has_it, all };
  TaskProbeAnswer find(const TaskProbeName& name, Files files);

private:
  Result<std::string> path_of(const std::string& file) const;
  const Result<Target>& open(const std::string& path);
  Result<ProbePoint> look_in(const std::string& path, const uprobestats::TaskProbe& probe);
  std::optional<Error> judge(std::string_view signature, const TaskProbeName& name) const;
  std::optional<Error> check_code(const Result<art::OatFile>& oat, const ProbePoint& point,
                                  const TaskProbeName& name) const;

  const TaskRequest& request_;
  Output& output_;
  std::map<std::string, Result<Target>> targets_; // by path
};

// How a probe went, as its record has it.
struct TaskProbeResult {
  std::string_view status; // "resolved", "attached", "failed", "refused"
  const ProbePoint* point = nullptr;
  std::optional<std::uint64_t> hits = {};
  std::optional<std::size_t> processes_mapping = {};
  std::optional<std::string> reason = {};
};
void report_result(const TaskProbeName& name, const TaskProbeResult& result, Output& output);

// To people, and as `error` and `probe` records.
void report_failure(const TaskProbeName& name, const Error& error, bool refused, Output& output);

} // namespace uprobectl
