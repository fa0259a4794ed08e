// Why a probe was not hit, or shows nothing: what processes map, what is inlined, what was
// filtered.
#pragma once

#include "bpf/builtin.hpp"
#include "events/plan.hpp"
#include "output/output.hpp"
#include "trace/process_filter.hpp"
#include "uprobectl/process.hpp"
#include "uprobectl/resolve.hpp"

#include <map>

namespace uprobectl {

// What the processes map, per probe point.
std::vector<MappingSurvey> survey_points(std::span<const ProbePoint> points,
                                         std::span<const pid_t> pids);

// Adds what an earlier survey saw and a later one no longer can: processes that have ended since.
void add_earlier(std::vector<MappingSurvey>& now, std::span<const MappingSurvey> earlier);

// What is known of a silent probe besides its survey.
struct SilenceFacts {
  FileChange change = FileChange::none; // of the probed file since it was opened
  // Descendants of the processes that are probed, not probed themselves, that map it executable.
  std::vector<pid_t> children = {};
  bool takes_pids = true; // the command has -p
  // At how many places the function is inlined, where debug data tell.
  std::optional<std::uint64_t> inlined = {};
  bool file_was_hit = false; // at another probe, so that somebody maps it
};

// One line, without subject: "no process maps this file executable". The survey is over `pids`, or
// over all processes.
std::string explain_silence(const MappingSurvey& survey, std::span<const pid_t> pids,
                            const SilenceFacts& facts = {});

// Per probe point: the descendants of these processes, themselves left out, that map it executable.
std::vector<std::vector<pid_t>> children_mapping(std::span<const ProbePoint> points,
                                                 std::span<const pid_t> pids);

// Per probe point, for those that are `silent`: SilenceFacts::inlined. Debug files are looked for
// in `debug_places` (--debug-dir), too. Reads all debug data of the files that silent probes are
// in.
std::vector<std::optional<std::uint64_t>> inlined_places(std::span<const ProbePoint> points,
                                                         const std::vector<bool>& silent,
                                                         std::span<const std::string> debug_places);

// For probes that every process may hit, by a survey over all of them, taken while they are placed:
// warns of each shared library that at least `many_processes` map, which all of them pay for.
constexpr std::size_t many_processes = 10;
void warn_if_everybody(std::span<const ProbePoint> points, std::span<const MappingSurvey> surveys,
                       const Reporter& reporter);

// While a run lasts: which probes have not been hit so far, and why (--verbose).

class SilenceTeller {
public:
  using Time = std::chrono::steady_clock::time_point;

  // All are borrowed.
  SilenceTeller(std::span<const ProbePoint> points, std::span<const PlannedSite> sites,
                const ProbeProgram& program, const FilteredProcesses& processes,
                const Reporter& reporter, Time start);

  // Says what is new, now and then; nothing where nobody wants to know.
  void tell(Time now);

private:
  std::map<std::size_t, std::string> reasons() const; // by point

  std::span<const ProbePoint> points_;
  std::span<const PlannedSite> sites_;
  const ProbeProgram& program_;
  const FilteredProcesses& processes_;
  const Reporter& reporter_;
  Time next_;
  std::map<std::size_t, std::string> told_;
};

// Why a probe that was hit has shown nothing. One line, without subject: "called 3 times, but --if
// held for none of them". Empty where it was not hit, or hits were shown.
std::string explain_left_out(const ProbeCounts& counts, const CaptureSpec& capture);

} // namespace uprobectl
