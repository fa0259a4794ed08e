// SPDX-License-Identifier: Apache-2.0
// The process filter of a run: what the links filter, what the BPF program filters, and which
// processes match now.
#pragma once

#include "bpf/process_set.hpp"
#include "process/child.hpp"
#include "trace/program_source.hpp"
#include "trace/run_loop.hpp"
#include "uprobectl/util.hpp"

#include <chrono>
#include <functional>
#include <map>
#include <span>
#include <sys/types.h>

namespace uprobectl::trace {

// Reports when the last of some processes has ended.
class ProcessWatch {
public:
  // Fails with not_found if a process does not exist.
  static Result<ProcessWatch> start(std::span<const pid_t> pids);

  bool all_gone(); // always false if no process is watched
  void add_to(std::vector<pollfd>& polled) const;
  // Describes the processes that all_gone() found ended since the last call: "process 4711 (app)".
  std::vector<std::string> take_ended() { return std::exchange(ended_, {}); }
  bool is_running(pid_t pid) const; // of these processes

private:
  struct Running {
    std::string name;
    process::ProcessHandle process;
  };
  bool watches_ = false;
  std::vector<Running> running_;
  std::vector<std::string> ended_;
};

// The message while no process has the name.
std::string waiting_status(std::string_view name);

// Finds processes by names in argv[0], which the kernel does not know. Checks a process when it is
// renamed or executes a program; a process set reports both.
class NameWatch {
public:
  using Time = std::chrono::steady_clock::time_point;
  using IsNamed = std::function<bool(pid_t pid, std::string_view name)>;
  // Gets a process and the indices of the names that match it.
  using Visit = std::function<void(pid_t pid, std::span<const std::size_t> names)>;

  NameWatch(std::vector<std::string> names, IsNamed is_named)
      : names_(std::move(names)), is_named_(std::move(is_named)) {}

  // Visits all processes that match a name now.
  void scan(const Visit& visit) const;
  // Visits the processes that were renamed since the last call, and each of them three times more a
  // little later, also if they match no name. Returns false if renames were missed; call scan()
  // then.
  bool look(bpf::ProcessSet& set, Time now, const Visit& visit);
  std::optional<Time> next_look() const; // nullopt: at the next rename

private:
  void visit_process(pid_t pid, const Visit& visit) const;
  std::vector<std::size_t> find_names(pid_t pid) const;

  std::vector<std::string> names_;
  IsNamed is_named_;
  std::uint64_t missed_ = 0;
  std::multimap<Time, pid_t> rechecks_;
};

// Control groups, version 2. Source: Linux Documentation/admin-guide/cgroup-v2.rst,
// filesystems/proc.rst (mountinfo).

// Returns the first mount point of cgroup2 in the text of a mountinfo file.
std::optional<std::string> cgroup2_mount(std::string_view mountinfo);

// A control group and its processes.
class ControlGroup {
public:
  // Opens a directory of cgroup2 by its absolute path, or its path relative to the cgroup2 mount.
  // Fails with not_found, or with usage if it is not in cgroup2.
  static Result<ControlGroup> open(std::string_view path);

  int fd() const { return fd_.get(); } // of the directory
  const std::string& path() const { return path_; }
  // Returns the processes of the group and its descendants, ascending.
  std::vector<pid_t> processes() const;

private:
  ControlGroup(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  UniqueFd fd_;
  std::string path_;
};

// Returns true if uprobe_multi links of a kernel of this release (uname -r) select a process by the
// memory of its main thread, and see nothing of it when that has ended: Linux 6.10 and 6.11 (commit
// 46ba0e49b642; since 900f362e2062 in 6.12 they select the process). Earlier kernels may have taken
// over the first of the commits.
bool links_lose_main_thread(std::string_view release);

// Returns the processes whose mappings resolve the TARGETs. Warns of names that no process has.
Result<std::vector<pid_t>> find_target_pids(const ProcessFilter& filter,
                                            std::span<const std::string> targets,
                                            output::Output& output);

// The target processes of an attach run.
class FilteredProcesses final : public TargetProcesses {
public:
  // `filter.pids` is the command's pid if there is one. `app` is --app. `running` watches the pids.
  // No process that starts from now on is missed.
  static Result<FilteredProcesses> start(const ProcessFilter& filter,
                                         const std::optional<std::string>& app,
                                         ProcessWatch running, output::Output& output);

  // The pids that the links filter by; empty: system-wide links.
  std::span<const pid_t> link_pids() const;
  // Lets the BPF program filter by these pids instead of the links. The kernel's filter selects the
  // memory of one task: it loses a process whose main thread ends, or in which another thread
  // executes a program. But then calls in other processes stop at the probes as well.
  Result<void> filter_in_program();
  // Returns the tasks that links of mechanisms other than multi are to be created for: the main
  // threads of the running processes among link_pids(), or other threads if those have ended.
  std::vector<pid_t> choose_link_tasks();
  // Returns the processes that go on although the task chosen for them has ended. Looks at most
  // once in task_check_interval, and returns none otherwise.
  std::vector<std::string> find_lost_tasks();
  static constexpr std::chrono::nanoseconds task_check_interval = std::chrono::milliseconds(500);
  ProgramFilter filter() const;

  bool look(Time now) override;
  std::optional<Time> next_look() const override;
  bool all_gone() override;
  void add_to(std::vector<pollfd>& polled) const override;
  // Describes the processes of the filter that ended since the last call: "process 4711 (app)".
  std::vector<std::string> take_ended();

  bool is_system_wide() const; // no filter applies
  // Returns the matching processes, now and at the start; empty if system-wide.
  std::vector<pid_t> known_pids() const;
  // Returns true if a target process can have children that are not probed.
  bool excludes_children() const;
  // Explains why known_pids() is empty: "no process named 'x' is running".
  std::string explain_no_process() const;
  // Whether processes are not traced because there are too many, see ProcessSet.
  bool were_too_many() const { return set_ && set_->was_full(); }

private:
  FilteredProcesses(const ProcessFilter& filter, const std::optional<std::string>& app)
      : filter_(&filter), app_package_(&app) {}
  Result<void> find_user(output::Output& output);
  Result<void> watch(output::Output& output);
  void add_named();

  const ProcessFilter* filter_;
  const std::optional<std::string>* app_package_;
  std::vector<pid_t> pids_; // those of the filter, if no set selects processes
  UniqueFd program_pids_;   // a map with them, if the BPF program filters
  std::vector<std::pair<pid_t, pid_t>> link_tasks_; // of each process
  Time next_task_check_{};
  std::optional<ProcessWatch> running_; // set if the run ends with these pids
  std::optional<bpf::ProcessSet> set_;
  std::optional<NameWatch> name_watch_;
  bool ends_with_members_ = false; // the run ends with the last member of the set
  std::chrono::steady_clock::time_point next_member_check_;
  Time next_end_check_{};
  std::optional<uid_t> user_;
  std::optional<ControlGroup> group_;
  std::vector<pid_t> initial_pids_;
};

} // namespace uprobectl::trace
