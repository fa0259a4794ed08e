// SPDX-License-Identifier: Apache-2.0
// Who is probed: by what the probes' links filter, by what the program does, and who that is now.
#pragma once

#include "bpf/process_set.hpp"
#include "process/child.hpp"
#include "trace/probe_program.hpp"
#include "trace/run_loop.hpp"
#include "uprobectl/util.hpp"

#include <chrono>
#include <functional>
#include <map>
#include <span>
#include <sys/types.h>

namespace uprobectl {

// Tells when the last of some processes has ended.
class ProcessWatch {
public:
  // not_found names a process that is not there (any more).
  static Result<ProcessWatch> start(std::span<const pid_t> pids);

  bool all_gone(); // always false if no process is watched
  void add_to(std::vector<pollfd>& polled) const;
  // Those that all_gone() has seen to be gone since the last time: "process 4711 (app)".
  std::vector<std::string> take_ended() { return std::exchange(ended_, {}); }

private:
  struct Running {
    std::string name;
    ProcessHandle process;
  };
  bool watches_ = false;
  std::vector<Running> running_;
  std::vector<std::string> ended_;
};

// Finds processes by names that the kernel does not know, those in argv[0], when they are renamed
// or execute a program. A process set tells of both.
class NameWatch {
public:
  using Time = std::chrono::steady_clock::time_point;
  using IsNamed = std::function<bool(pid_t pid, std::string_view name)>;
  // A process and which of the names it goes by, by their numbers.
  using Visit = std::function<void(pid_t pid, std::span<const std::size_t> names)>;

  NameWatch(std::vector<std::string> names, IsNamed is_named)
      : names_(std::move(names)), is_named_(std::move(is_named)) {}

  // Visits all processes that go by one of the names now.
  void scan(const Visit& visit) const;
  // Visits the processes that were renamed since the last time, and again a little later, three
  // times, also if they go by none of the names. False if renames were missed: scan() again.
  bool look(ProcessSet& set, Time now, const Visit& visit);
  std::optional<Time> next_look() const; // nothing: when there are renames

private:
  void visit_process(pid_t pid, const Visit& visit) const;
  std::vector<std::size_t> find_names(pid_t pid) const;

  std::vector<std::string> names_;
  IsNamed is_named_;
  std::uint64_t missed_ = 0;
  std::multimap<Time, pid_t> rechecks_;
};

// Control groups of version 2, as people name them. Source: Linux
// Documentation/admin-guide/cgroup-v2.rst, filesystems/proc.rst (mountinfo).

// Where cgroup2 is mounted, first of several; the text is that of a mountinfo file.
std::optional<std::string> cgroup2_mount(std::string_view mountinfo);

class ControlGroup {
public:
  // An absolute path, or one from where cgroup2 is mounted on. not_found, or usage where the folder
  // is none of cgroup2.
  static Result<ControlGroup> open(std::string_view path);

  int fd() const { return fd_.get(); } // of the folder
  const std::string& path() const { return path_; }
  // Its processes and those of the groups below it, ascending.
  std::vector<pid_t> processes() const;

private:
  ControlGroup(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  UniqueFd fd_;
  std::string path_;
};

// The processes whose mappings say what TARGET means. Warns where there is none of a name.
Result<std::vector<pid_t>> find_target_pids(const ProcessFilter& filter, std::string_view target,
                                            Output& output);

class FilteredProcesses final : public TargetProcesses {
public:
  // With a command its process is the only one of the pids. `app`: of --app. `running` watches the
  // pids. From here on no process that begins is missed.
  static Result<FilteredProcesses> start(const ProcessFilter& filter,
                                         const std::optional<std::string>& app,
                                         ProcessWatch running, Output& output);

  // By these alone links filter; empty: probes go to all processes.
  const std::vector<pid_t>& link_pids() const { return link_pids_; }
  ProgramFilter filter() const;

  bool look(Time now) override;
  std::optional<Time> next_look() const override;
  bool all_gone() override;
  void add_to(std::vector<pollfd>& polled) const override;
  // The pids of the filter that have ended since the last time: "process 4711 (app)".
  std::vector<std::string> take_ended();

  bool is_system_wide() const; // nothing restricts the run
  // Those that are, or were when it began; empty for everybody.
  std::vector<pid_t> known_pids() const;
  // Whether a process that is probed can have children that are not.
  bool excludes_children() const;
  // "no process named 'x' runs": why known() is empty where the run is restricted.
  std::string explain_no_process() const;

private:
  FilteredProcesses(const ProcessFilter& filter, const std::optional<std::string>& app)
      : asked_(&filter), app_(&app) {}
  Result<void> find_user(Output& output);
  Result<void> watch(Output& output);
  void add_named();

  const ProcessFilter* asked_;
  const std::optional<std::string>* app_;
  std::vector<pid_t> link_pids_;
  std::optional<ProcessWatch> running_; // where the end of the pids is that of the run
  std::optional<ProcessSet> set_;
  std::optional<NameWatch> named_;
  bool ends_with_members_ = false; // the run ends with the last member of the set
  std::chrono::steady_clock::time_point next_member_check_;
  std::optional<uid_t> user_;
  std::optional<ControlGroup> group_;
  std::vector<pid_t> initial_pids_;
};

} // namespace uprobectl
