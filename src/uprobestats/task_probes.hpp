// The probes of a task file -> places in files.
#pragma once

#include "uprobectl/uprobestats.hpp"
#include "uprobestats/task_arguments.hpp"

#include <map>

namespace uprobectl {

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
  TaskProbeFinder(const TaskRequest& request, const Reporter& reporter)
      : request_(request), reporter_(reporter) {}

  enum class Files { first_that_has_it, all };
  TaskProbeAnswer find(const TaskProbeName& name, Files files);

private:
  Result<std::string> path_of(const std::string& file) const;
  const Result<Target>& open(const std::string& path);
  Result<ProbePoint> look_in(const std::string& path, const uprobestats::TaskProbe& probe);
  std::optional<Error> judge(std::string_view signature, const TaskProbeName& name) const;
  std::optional<Error> judge_code(const Result<art::OatFile>& oat, const ProbePoint& point,
                                  const TaskProbeName& name) const;

  const TaskRequest& request_;
  const Reporter& reporter_;
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
void tell_result(const TaskProbeName& name, const TaskProbeResult& result, Sink& sink);

// To people, and as `error` and `probe` records.
void tell_failure(const TaskProbeName& name, const Error& error, bool refused, Sink& sink,
                  const Reporter& reporter);

} // namespace uprobectl
