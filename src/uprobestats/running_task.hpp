// SPDX-License-Identifier: Apache-2.0
// One task of a run: attaches its probes to its target processes, from the first process until its
// duration has elapsed.
#pragma once

#include "trace/file_watch.hpp"
#include "trace/run_loop.hpp"
#include "uprobectl/process.hpp"
#include "uprobestats/task_probes.hpp"
#include "uprobestats/task_processes.hpp"
#include "uprobestats/task_records.hpp"

namespace uprobectl::uprobestats {

class RunningTask {
public:
  using Time = std::chrono::steady_clock::time_point;

  // number: from 1. Borrows all arguments.
  RunningTask(std::size_t number, const Task& task, output::Output& output)
      : number_(number), task_(task), output_(output) {}

  // Resolves the probes and opens their programs. Reports errors and returns false if there were
  // any.
  bool prepare(TaskProbeFinder& finder, TaskPrograms& programs);

  // The task has ended, or none of its probes can be attached.
  bool is_over() const { return over_; }
  bool is_attached() const { return began_.has_value(); }
  std::size_t number() const { return number_; }
  const Task& config() const { return task_; }
  // BTF id of the first program that has one, to decode records; 0 if none has.
  std::uint32_t btf_id() const;
  // The registers of the arguments to log. Warns about arguments without a register.
  std::vector<StatsdArgument> logged_arguments() const;
  std::optional<Time> deadline() const;
  std::vector<std::string> programs() const; // name of the program of each probe
  BinderFilters filters() const;             // of all its probes
  std::size_t probes() const { return probes_.size(); }
  std::size_t processes() const { return pids_.size(); } // so far

  // Attaches the probes to a target process. Returns false if one could not be attached.
  bool attach_to(pid_t pid, const TaskPrograms& programs, trace::SignalWatch& signals);
  // Ends the task with an error, which is reported for each probe.
  void fail(const Error& error);
  // Detaches the probes from a process that has ended.
  void detach_from(pid_t pid);
  // Detaches the probes of files that are opened for writing, with an error. Call it often.
  void follow_files(Time now);
  // A signal arrived before all probes were attached.
  bool is_interrupted() const { return interrupted_; }
  // Detaches the probes and reports their results. `shared`: programs of several probes, whose hits
  // are not known per probe. Calls `meanwhile` repeatedly while probes are detached.
  void end(const TaskPrograms& programs, const std::set<std::string>& shared,
           const std::function<void()>& meanwhile);

  std::size_t hit() const { return hit_; }
  std::size_t unhit() const { return unhit_; }
  std::size_t unknown() const { return unknown_; } // probes whose number of hits is not known

private:
  struct Probe {
    TaskProbeName name;
    std::vector<resolve::ProbePoint> points; // where the method is, in the order of file_paths
    LoggedMethod method;
    const TaskProgram* program = nullptr;
    std::optional<std::size_t> chosen;           // index of the first point that was attached
    std::optional<Error> attach_error;           // the first error of attaching
    std::vector<process::MappingSurvey> surveys; // by point; accumulated over all processes
    std::optional<std::uint64_t> runs;           // of its program, before the probe was attached
  };
  std::vector<std::size_t> choose_points(Probe& probe, pid_t pid,
                                         std::span<const process::MappingSurvey> surveys) const;
  bool attach_probe(Probe& probe, std::size_t point, pid_t pid, trace::SignalWatch& signals);
  void report_probe(const Probe& probe, std::optional<std::uint64_t> hits);
  std::size_t mapped_point(const Probe& probe,
                           std::span<const process::MappingSurvey> surveys) const;
  void warn_about_order(const Probe& probe, pid_t pid, std::size_t point) const;
  void warn_about_unmapped(const Probe& probe, pid_t pid) const;
  bool is_target(pid_t pid) const;
  static std::optional<std::string> find_mapped_build(const Probe& probe, pid_t pid);
  std::string explain_unhit(const Probe& probe, std::size_t at,
                            const process::MappingSurvey& survey) const;
  void announce() const;

  std::size_t number_;
  const Task& task_;
  output::Output& output_;
  std::vector<Probe> probes_; // only probes that were resolved
  struct Attached {
    pid_t pid = 0;
    FileIdentity file;
    probe::Attachment attachment;
  };
  std::vector<Attached> attachments_;
  trace::FileWatch files_;
  std::vector<pid_t> pids_;
  std::optional<Time> began_;
  std::size_t attached_points_ = 0;
  std::size_t hit_ = 0;
  std::size_t unhit_ = 0;
  std::size_t unknown_ = 0;
  bool failed_ = false;
  bool interrupted_ = false;
  bool over_ = false;
};

} // namespace uprobectl::uprobestats
