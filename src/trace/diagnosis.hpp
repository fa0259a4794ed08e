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

// What the processes map, by point or probe. Without pids all processes are looked at.
std::vector<MappingSurvey> survey_points(std::span<const ProbePoint> points,
                                         std::span<const pid_t> pids);
std::vector<MappingSurvey> survey_probes(std::span<const Probe> probes,
                                         std::span<const pid_t> pids);

// Adds what an earlier survey saw and a later one no longer can: processes that have ended since.
void add_earlier(std::vector<MappingSurvey>& now, std::span<const MappingSurvey> earlier);
// Adds surveys, by number, to those of the probes.
void add_surveys(std::span<Probe> probes, std::span<const MappingSurvey> surveys);

// One line, without subject: "no process maps this file executable". The survey is over `pids`, or
// over all processes.
std::string explain_silence(const MappingSurvey& survey, std::span<const pid_t> pids,
                            const SilenceFacts& facts = {});

// Adds the descendants of these processes that map a probe executable to its
// SilenceFacts::children.
void find_children(std::span<Probe> probes, std::span<const pid_t> pids);

// Sets SilenceFacts::inlined. Debug files are looked for in `debug_places` (--debug-dir), too.
// Reads all debug info of the files that the probes are in.
void find_inlined(std::span<Probe* const> probes, std::span<const std::string> debug_places);

// For probes that every process may hit, by a survey over all of them, taken while they are placed:
// warns of each shared library that at least `many_processes` map, which all of them pay for.
constexpr std::size_t many_processes = 10;
void warn_if_everybody(std::span<const Probe> probes, std::span<const MappingSurvey> surveys,
                       Output& output);

// While a run lasts: which probes have not been hit so far, and why (--verbose).
class SilenceTeller {
public:
  using Time = std::chrono::steady_clock::time_point;

  // All are borrowed.
  SilenceTeller(std::span<Probe> probes, const ProbeProgram& program,
                const FilteredProcesses& processes, Output& output, Time start);

  // Says what is new, now and then; nothing where nobody wants to know.
  void tell(Time now);

private:
  std::map<std::size_t, std::string> reasons() const; // by number

  std::span<Probe> probes_;
  const ProbeProgram& program_;
  const FilteredProcesses& processes_;
  Output& output_;
  Time next_;
  std::map<std::size_t, std::string> told_;
};

// Why a probe that was hit has shown nothing. One line, without subject: "called 3 times, but --if
// held for none of them". Empty where it was not hit, or hits were shown.
std::string explain_left_out(const ProbeCounts& counts, const CaptureSpec& capture);

} // namespace uprobectl
