// Who is probed: by what the probes' links filter, by what the program does, and who that is now.
#pragma once

#include "trace/probe_program.hpp"
#include "trace/process_watch.hpp"
#include "trace/run_loop.hpp"
#include "uprobectl/util.hpp"

#include <sys/types.h>

namespace uprobectl {

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
Result<std::vector<pid_t>> processes_to_look_in(const AttachRequest& request, Output& output);

class FilteredProcesses final : public TargetProcesses {
public:
  // Of a request with a command its process is the only one of the pids. `running` watches the
  // pids. From here on no process that begins is missed.
  static Result<FilteredProcesses> start(const AttachRequest& request, ProcessWatch running,
                                         Output& output);

  // By these alone links filter; empty: probes go to all processes.
  const std::vector<pid_t>& link_pids() const { return link_pids_; }
  ProgramFilter filter() const;

  bool look(Time now) override;
  std::optional<Time> next_look() const override;
  bool all_gone() override;
  void add_to(std::vector<pollfd>& polled) const override;
  // The pids of the request that have ended since the last time: "process 4711 (app)".
  std::vector<std::string> take_ended();

  bool is_everybody() const; // nothing restricts the run
  // Those that are, or were when it began; empty for everybody.
  std::vector<pid_t> known() const;
  // Whether a process that is probed can have children that are not.
  bool leaves_children_out() const;
  // "no process named 'x' runs": why known() is empty where the run is restricted.
  std::string nobody() const;

private:
  explicit FilteredProcesses(const AttachRequest& request) : request_(&request) {}
  Result<void> find_user(Output& output);
  Result<void> watch(Output& output);
  void add_named();

  const AttachRequest* request_;
  std::vector<pid_t> link_pids_;
  std::optional<ProcessWatch> running_; // where the end of the pids is that of the run
  std::optional<ProcessSet> set_;
  std::optional<NameWatch> named_;
  bool family_ends_ = false; // the run ends with the last member of the set
  std::chrono::steady_clock::time_point next_count_;
  std::optional<uid_t> user_;
  std::optional<ControlGroup> group_;
  std::vector<pid_t> first_known_;
};

} // namespace uprobectl
