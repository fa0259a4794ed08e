// SPDX-License-Identifier: Apache-2.0
#include "trace/program_runs.hpp"

#include <algorithm>
#include <iterator>

namespace uprobectl::trace {

namespace {

// A program with sites at both ends runs at both.
std::string_view phase_at(const Probe& probe, std::size_t program, const ProgramInfo& info) {
  std::set<std::string_view> phases;
  for (const PlannedSite& site : probe.sites)
    if (site.program == program) phases.insert(info.phase_of(site));
  return phases.size() == 1 ? *phases.begin() : "entry and return";
}

} // namespace

ProgramRuns::ProgramRuns(const UserPrograms& programs, std::span<const Probe> probes)
    : programs_(programs), probes_(programs.count()) {
  for (const Probe& probe : probes)
    for (const PlannedSite& site : probe.sites) probes_[site.program].insert(probe.number);
}

std::vector<std::size_t> ProgramRuns::probe_counts() const {
  std::vector<std::size_t> counts(probes_.size());
  std::ranges::transform(probes_, counts.begin(), &std::set<std::size_t>::size);
  return counts;
}

std::size_t ProgramRuns::probe_index(std::size_t program, std::size_t probe) const {
  const std::set<std::size_t>& probes = probes_[program];
  return static_cast<std::size_t>(std::distance(probes.begin(), probes.find(probe)));
}

void ProgramRuns::begin() {
  counting_ = bpf::ProgramRunCounter::start();
  for (std::size_t i = 0; i < programs_.count(); ++i)
    for (std::size_t copy = 0; copy < programs_.copies(i); ++copy)
      before_[{i, copy}] = runs(i, copy);
}

std::optional<std::uint64_t> ProgramRuns::runs(std::size_t program, std::size_t copy) const {
  return counting_.runs(programs_.program(program, copy).fd);
}

// Returns nullopt if the runs at the probe are not known: the program, or its copy for the probe,
// has other probes, and did run.
std::optional<std::uint64_t> ProgramRuns::runs_since_begin(std::size_t program,
                                                           std::size_t probe) const {
  const bool has_copies = programs_.copies(program) > 1;
  const std::size_t copy = has_copies ? probe_index(program, probe) : 0;
  const auto now = runs(program, copy);
  const auto before = before_.find({program, copy});
  if (!now || before == before_.end() || !before->second) return std::nullopt;
  const std::uint64_t hits = *now - *before->second;
  const bool is_alone = has_copies || probes_[program].size() == 1;
  return is_alone || hits == 0 ? std::optional(hits) : std::nullopt;
}

void ProgramRuns::count_hits(std::span<Probe> probes, const ProgramInfo& info) const {
  for (Probe& probe : probes) {
    probe.hits = 0;
    probe.programs.clear();
    std::set<std::size_t> seen;
    for (const PlannedSite& site : probe.sites) {
      if (!seen.insert(site.program).second) continue;
      const auto hits = runs_since_begin(site.program, probe.number);
      if (!hits || !probe.hits)
        probe.hits.reset();
      else
        *probe.hits += *hits;
      probe.programs.push_back({.program = info.programs[site.program].name,
                                .phase = std::string(phase_at(probe, site.program, info)),
                                .hits = hits});
    }
  }
}

} // namespace uprobectl::trace
