// SPDX-License-Identifier: Apache-2.0
// One task of a run: its probes in the processes that it names, from the first one on until its
// time is over.
#pragma once

#include "trace/run_loop.hpp"
#include "uprobectl/process.hpp"
#include "uprobestats/task_probes.hpp"
#include "uprobestats/task_processes.hpp"
#include "uprobestats/task_records.hpp"

namespace uprobectl {

class RunningTask {
public:
  using Time = std::chrono::steady_clock::time_point;

  // number: from 1. Borrows all.
  RunningTask(std::size_t number, const uprobestats::Task& task, Output& output)
      : number_(number), task_(task), output_(output) {}

  // Finds its probes and programs; what fails is told. False if anything did.
  bool prepare(TaskProbeFinder& finder, TaskPrograms& programs);

  // Nothing of it can run, or any more.
  bool is_over() const { return over_; }
  bool is_attached() const { return began_.has_value(); }
  std::size_t number() const { return number_; }
  const uprobestats::Task& spec() const { return task_; }
  // The types of its programs, for what they send; 0: there are none.
  std::uint32_t btf_id() const;
  // Where the arguments are that it logs; warns of those that are nowhere.
  std::vector<StatsdArgument> logged_arguments() const;
  std::optional<Time> deadline() const;
  std::vector<std::string> programs() const; // of each probe, by name
  std::size_t probes() const { return probes_.size(); }
  std::size_t processes() const { return pids_.size(); } // so far

  // Its probes, in a process that goes by its name. False if one of them could not be placed.
  bool attach_to(pid_t pid, const TaskPrograms& programs, SignalWatch& signals);
  // Why none of it runs, told of each probe that could.
  void fail(const Error& error);
  // Takes the probes away from a process that has ended.
  void forget(pid_t pid);
  // A signal came before all probes were in place.
  bool is_interrupted() const { return interrupted_; }
  // Takes the probes away and tells how they went. `meanwhile` is called while they go.
  void end(const TaskPrograms& programs, const std::set<std::string>& shared,
           const std::function<void()>& meanwhile);

  std::size_t hit() const { return hit_; }
  std::size_t silent() const { return silent_; }
  std::size_t unknown() const { return unknown_; } // probes whose state is not known

private:
  struct Probe {
    TaskProbeName name;
    std::vector<ProbePoint> points; // where it can be, by file
    LoggedMethod method;
    const TaskProgram* program = nullptr;
    std::optional<std::size_t> chosen;  // of the points, the first that was probed
    std::optional<Error> refusal;       // the first of the kernel's
    std::vector<MappingSurvey> surveys; // by point, what was seen so far
    std::optional<std::uint64_t> runs;  // of its program, before
  };
  std::vector<std::size_t> choose(Probe& probe, pid_t pid,
                                  std::span<const MappingSurvey> surveys) const;
  bool place(Probe& probe, std::size_t point, pid_t pid, SignalWatch& signals);
  void tell(const Probe& probe, std::optional<std::uint64_t> hits);
  std::size_t mapped_point(const Probe& probe, std::span<const MappingSurvey> surveys) const;
  void warn_about_order(const Probe& probe, pid_t pid, std::size_t point) const;
  static std::optional<std::string> other_build(const Probe& probe, pid_t pid);
  std::string explain_point(const Probe& probe, std::size_t at, const MappingSurvey& survey) const;
  void announce() const;

  std::size_t number_;
  const uprobestats::Task& task_;
  Output& output_;
  std::vector<Probe> probes_; // those that can run
  struct Attached {
    pid_t pid = 0;
    Attachment attachment;
  };
  std::vector<Attached> attachments_;
  std::vector<pid_t> pids_;
  std::optional<Time> began_;
  std::size_t placed_ = 0;
  std::size_t hit_ = 0;
  std::size_t silent_ = 0;
  std::size_t unknown_ = 0;
  bool failed_ = false;
  bool interrupted_ = false;
  bool over_ = false;
};

} // namespace uprobectl
