// What processes have mapped and been called while a run lasts: the end of the run asks for both,
// when many of them have ended.
#pragma once

#include "process/mapping_watch.hpp"
#include "process/survey.hpp"
#include "trace/probes.hpp"
#include "trace/trace.hpp"
#include "uprobectl/util.hpp"

#include <deque>
#include <map>
#include <set>
#include <unordered_map>

namespace uprobectl {

// What is probed, for surveys of who maps it.
ProbedFile probed_file(const ProbePoint& point);
std::vector<ProbedFile> probed_files(std::span<const Probe> probes);

class ProcessHistory {
public:
  // From now on, as far as the request needs it and this user may know it: what its processes and
  // their descendants map, and how processes are called if they are counted for themselves.
  ProcessHistory(const AttachRequest& request, std::span<const Probe> probes);
  // What has happened since the last time: records wait in buffers that have bounds.
  void look();

  // The name of the process, not of one of its threads, by now or when it ended. Nothing if it is
  // not known.
  std::optional<std::string> name_of(pid_t pid) const;
  // By probe: who has mapped it meanwhile, of these processes or, with `others`, of all others that
  // were watched.
  std::vector<MappingSurvey> surveys(std::span<const pid_t> pids, bool others) const;

private:
  void add(const MappingEvent& event);
  void keep_mapping(const MappingEvent& event);
  void forget_ended(pid_t pid);

  bool wants_names_ = false;
  std::vector<ProbedFile> files_;
  std::optional<MappingSurveyor> probed_; // where mappings are wanted
  std::optional<MappingWatch> watch_;
  std::map<pid_t, std::vector<Mapping>> mapped_; // what probed_ is concerned with
  std::set<std::tuple<pid_t, FileIdentity, std::uint64_t, std::string>> known_mappings_;
  std::unordered_map<pid_t, std::string> names_;
  std::deque<pid_t> ended_; // of them
};

// The pids that processes have for themselves, for many events: /proc is asked seldom.

class OwnPids {
public:
  OwnPids();

  // Of a process that had an event at that time (CLOCK_MONOTONIC); nothing where it had ended
  // before /proc was first asked.
  std::optional<std::uint32_t> of(std::uint32_t pid, std::uint64_t time_ns);

private:
  struct Known {
    std::uint64_t asked_ns = 0; // the time of the event that /proc was asked for
    std::optional<std::uint32_t> own;
  };
  std::unordered_map<std::uint32_t, Known> known_;
  bool possible_; // else /proc has other pids than the kernel's
};

} // namespace uprobectl
