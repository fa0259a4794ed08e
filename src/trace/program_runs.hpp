// SPDX-License-Identifier: Apache-2.0
// How often the programs of a user have run at each probe. The kernel counts the runs of a program,
// not those of a probe, so a program may have a copy for each of its probes.
#pragma once

#include "bpf/pin.hpp"
#include "trace/program_source.hpp"
#include "trace/user_programs.hpp"

#include <map>
#include <set>

namespace uprobectl::trace {

class ProgramRuns {
public:
  // Borrows the programs. `probes`: to which they will be attached.
  ProgramRuns(const UserPrograms& programs, std::span<const Probe> probes);

  std::vector<std::size_t> probe_counts() const; // of each program
  // Returns the index of the probe among the program's probes.
  std::size_t probe_index(std::size_t program, std::size_t probe) const;

  // Begins to count, when copies are loaded and nothing is attached.
  void begin();
  // Sets Probe::hits and programs. Valid after detaching, too.
  void count_hits(std::span<Probe> probes, const ProgramInfo& info) const;

private:
  std::optional<std::uint64_t> runs(std::size_t program, std::size_t copy) const;
  std::optional<std::uint64_t> runs_since_begin(std::size_t program, std::size_t probe) const;

  const UserPrograms& programs_;
  std::vector<std::set<std::size_t>> probes_; // by program: the numbers of its probes
  bpf::ProgramRunCounter counting_;
  // The numbers of runs at begin(), by the program and the index of its copy.
  std::map<std::pair<std::size_t, std::size_t>, std::optional<std::uint64_t>> before_;
};

} // namespace uprobectl::trace
