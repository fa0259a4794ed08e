// SPDX-License-Identifier: Apache-2.0
// Why a probe was not hit, or shows nothing: what processes map, what is inlined, what was
// filtered.
#pragma once

#include "bpf/builtin.hpp"
#include "events/plan.hpp"
#include "output/output.hpp"
#include "process/mapping_watch.hpp"
#include "process/survey.hpp"
#include "trace/probes.hpp"
#include "trace/process_filter.hpp"
#include "trace/trace.hpp"
#include "uprobectl/process.hpp"
#include "uprobectl/resolve.hpp"
#include "uprobectl/util.hpp"

#include <deque>
#include <map>
#include <set>
#include <unordered_map>

namespace uprobectl {

// What is probed, for surveys of who maps it.
ProbedFile probed_file(const ProbePoint& point);
std::vector<ProbedFile> probed_files(std::span<const Probe> probes);

// What processes have mapped and been called while a run lasts: the end of the run asks for both,
// when many of them have ended.
class ProcessHistory {
public:
  // From now on, as far as this user may know it: what the processes of the filter and their
  // descendants map, and the names of processes if they are wanted.
  ProcessHistory(const ProcessFilter& filter, bool wants_names, std::span<const Probe> probes);
  // What has happened since the last time: records wait in buffers that have bounds.
  void update();

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
class NamespacePids {
public:
  NamespacePids();

  // Of a process that had an event at that time (CLOCK_MONOTONIC); nothing where it had ended
  // before /proc was first asked.
  std::optional<std::uint32_t> find(std::uint32_t pid, std::uint64_t time_ns);

private:
  struct CachedPid {
    std::uint64_t read_ns = 0; // the time of the event that /proc was asked for
    std::optional<std::uint32_t> own;
  };
  std::unordered_map<std::uint32_t, CachedPid> known_;
  bool available_; // else /proc has other pids than the kernel's
};

// What the processes map, by point or probe. Without pids all processes are looked at.
std::vector<MappingSurvey> survey_points(std::span<const ProbePoint> points,
                                         std::span<const pid_t> pids);
std::vector<MappingSurvey> survey_probes(std::span<const Probe> probes,
                                         std::span<const pid_t> pids);

// Adds what an earlier survey saw and a later one no longer can: processes that have ended since.
void add_earlier_surveys(std::vector<MappingSurvey>& now, std::span<const MappingSurvey> earlier);
// Adds surveys, by number, to those of the probes.
void add_surveys(std::span<Probe> probes, std::span<const MappingSurvey> surveys);

// One line, without subject: "no process maps this file executable". The survey is over `pids`, or
// over all processes.
std::string diagnose(const MappingSurvey& survey, std::span<const pid_t> pids,
                     const UnhitFacts& facts = {});

// Adds the descendants of these processes that map a probe executable to its
// UnhitFacts::children.
void find_unprobed_children(std::span<Probe> probes, std::span<const pid_t> pids);

// Sets UnhitFacts::inlined. Debug files are looked for in `debug_places` (--debug-dir), too.
// Reads all debug info of the files that the probes are in.
void find_inlined(std::span<Probe* const> probes, std::span<const std::string> debug_places);

// For probes that every process may hit, by a survey over all of them, taken while they are placed:
// warns of each shared library that at least `many_processes` map, which all of them pay for.
constexpr std::size_t many_processes = 10;
void warn_about_shared_libraries(std::span<const Probe> probes,
                                 std::span<const MappingSurvey> surveys, Output& output);

// While a run lasts: which probes have not been hit so far, and why (--verbose).
class UnhitReporter {
public:
  using Time = std::chrono::steady_clock::time_point;

  // All are borrowed.
  UnhitReporter(std::span<Probe> probes, const ProbeProgram& program,
                const FilteredProcesses& processes, Output& output, Time start);

  // Says what is new, now and then; nothing where nobody wants to know.
  void report(Time now);

private:
  std::map<std::size_t, std::string> explain_unhit_probes() const; // by number

  std::span<Probe> probes_;
  const ProbeProgram& program_;
  const FilteredProcesses& processes_;
  Output& output_;
  Time next_;
  std::map<std::size_t, std::string> reported_;
};

// Why a probe that was hit has shown nothing. One line, without subject: "called 3 format_times,
// but --if held for none of them". Empty where it was not hit, or hits were shown.
std::string explain_hidden_hits(const ProbeCounts& counts, const CaptureSpec& capture);

} // namespace uprobectl
