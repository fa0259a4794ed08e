// SPDX-License-Identifier: Apache-2.0
// Explains why a probe was not hit, or shows nothing: what processes map, what is inlined, which
// hits were filtered.
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

namespace uprobectl::trace {

// Returns text that follows the name of a process: "has its code in writable memory, where …".
std::string_view describe_obstacle(process::MappingObstacle obstacle);

// Return the files of probes, as MappingSurveyor takes them.
process::ProbedFile probed_file(const resolve::ProbePoint& point);
std::vector<process::ProbedFile> probed_files(std::span<const Probe> probes);

// Records the mappings and names of processes during a run, because many of them have ended when
// the run ends.
class ProcessHistory {
public:
  // Starts recording, as far as this user is permitted: the mappings of the processes of the filter
  // and of their descendants, and process names if records_names.
  ProcessHistory(const ProcessFilter& filter, bool records_names, std::span<const Probe> probes);
  // Reads the events since the last call. Call it often: the kernel's buffers are bounded.
  void update();

  // Returns the current name of the process (not of a thread), or its last name if it has ended;
  // nullopt if unknown.
  std::optional<std::string> find_name(pid_t pid) const;
  // Returns true if the process was seen to create executable memory without a file, as programs do
  // that hook or copy code, and compilers at run time. Only known if mappings are recorded.
  bool has_new_code(pid_t pid) const { return has_new_code_.contains(pid); }
  struct Replaced {
    pid_t pid = 0;
    std::uint64_t time_ns = 0; // CLOCK_MONOTONIC
  };
  // Returns the processes in which a thread other than the main one has executed a program since
  // the last call.
  std::vector<Replaced> take_replaced() { return std::exchange(replaced_, {}); }
  bool is_replaced(pid_t pid) const; // whether take_replaced() would return it
  // Returns for each probe the recorded mappings of `pids` or, with `others`, of all other recorded
  // processes.
  std::vector<process::MappingSurvey> surveys(std::span<const pid_t> pids, bool others) const;

private:
  void add(const process::MappingEvent& event);
  void record_mapping(const process::MappingEvent& event);
  void forget_ended(pid_t pid);

  bool records_names_ = false;
  std::vector<process::ProbedFile> files_;
  std::optional<process::MappingSurveyor> probed_; // if mappings are recorded
  std::optional<process::MappingWatch> watch_;
  std::map<pid_t, std::vector<process::Mapping>> mapped_; // mappings of probed files
  std::set<std::tuple<pid_t, FileIdentity, std::uint64_t, std::string>> known_mappings_;
  std::set<pid_t> has_new_code_;
  std::unordered_map<pid_t, std::string> names_;
  std::vector<Replaced> replaced_;
  std::deque<pid_t> ended_; // pids in names_ that have ended, the oldest first
};

// Translates pids to those of the process's own pid namespace. Caches them, so that /proc is read
// seldom.
class NamespacePids {
public:
  // Returns the pid in its own namespace of a process that had an event at time_ns
  // (CLOCK_MONOTONIC), or nullopt if it ended before /proc was read for it.
  std::optional<std::uint32_t> find(std::uint32_t pid, std::uint64_t time_ns);

private:
  struct CachedPid {
    std::uint64_t read_ns = 0; // time of the event for which /proc was read
    std::optional<std::uint32_t> own;
  };
  std::unordered_map<std::uint32_t, CachedPid> known_;
};

// Returns what the processes map, for each point or probe. Without pids, all processes are
// examined.
std::vector<process::MappingSurvey> survey_points(std::span<const resolve::ProbePoint> points,
                                                  std::span<const pid_t> pids);
std::vector<process::MappingSurvey> survey_probes(std::span<const Probe> probes,
                                                  std::span<const pid_t> pids);

// Adds to `now` what an earlier survey saw of processes that have ended since.
void add_earlier_surveys(std::vector<process::MappingSurvey>& now,
                         std::span<const process::MappingSurvey> earlier);
// Adds surveys to Probe::survey, by probe number.
void add_surveys(std::span<Probe> probes, std::span<const process::MappingSurvey> surveys);

// Explains an unhit probe in one line, without subject: "no process maps this file executable". The
// survey is over `pids`, or over all processes if that is empty.
std::string diagnose(const process::MappingSurvey& survey, std::span<const pid_t> pids,
                     const UnhitFacts& facts = {});

// Adds to UnhitFacts::children the descendants of `pids` that map a probe executable.
void find_unprobed_children(std::span<Probe> probes, std::span<const pid_t> pids);

// Sets UnhitFacts::inlined. Reads all debug info of the probed files.
void find_inlined(std::span<Probe* const> probes, BinaryCache& binaries);

// Warns of each shared library that at least `many_processes` processes map, because each of them
// pays for system-wide probes. `surveys` are over all processes.
constexpr std::size_t many_processes = 10;
void warn_about_shared_libraries(std::span<const Probe> probes,
                                 std::span<const process::MappingSurvey> surveys,
                                 output::Output& output);

// Reports during a run which probes were not hit so far, and why (--verbose).
class UnhitReporter {
public:
  using Time = std::chrono::steady_clock::time_point;

  // Borrows the arguments.
  UnhitReporter(std::span<Probe> probes, const ProgramSource& program,
                const FilteredProcesses& processes, output::Output& output, Time start);

  // Reports new explanations from time to time. Does nothing without --verbose.
  void report(Time now);

private:
  std::map<std::size_t, std::string> explain_unhit_probes() const; // by probe number

  std::span<Probe> probes_;
  const ProgramSource& program_;
  const FilteredProcesses& processes_;
  output::Output& output_;
  Time next_;
  std::map<std::size_t, std::string> reported_;
};

// Returns "; process 4711 (app), a descendant, maps it: --follow probes it, too"; empty without
// children.
std::string mention_children(std::span<const pid_t> children);

// Returns the number of hits that were not excluded; of paired calls, those that have returned.
std::uint64_t shown_hits(const bpf::ProbeCounts& counts, const events::CaptureSpec& capture);

// The end of the explanation if only other processes hit the probe.
inline constexpr std::string_view not_by_probed = "but by none of the processes that are probed";

// Explains in one line, without subject, why a probe that was hit has shown nothing: "called 3
// times, but --if held for none of them". Returns an empty string if it was not hit, or if hits
// were shown. `undecided`: hits of the run for which a condition could not be evaluated.
std::string explain_hidden_hits(const bpf::ProbeCounts& counts, const events::CaptureSpec& capture,
                                std::uint64_t undecided = 0);

} // namespace uprobectl::trace
