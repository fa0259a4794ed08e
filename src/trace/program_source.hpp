// SPDX-License-Identifier: Apache-2.0
// The interface to the BPF programs of a run: the built-in one, or those of a user.
#pragma once

#include "bpf/object.hpp"
#include "trace/event_source.hpp"
#include "trace/hit_stacks.hpp"
#include "trace/probes.hpp"
#include "trace/run_part.hpp"
#include "trace/trace.hpp"

namespace uprobectl::trace {

class BinaryCache;

// The processes whose hits the program reports. The program drops hits of other processes.
struct ProgramFilter {
  unsigned flags = 0;    // FILTER_… of bpf/record.h: which of the following count
  std::uint32_t uid = 0; // real user id
  // Descriptors, borrowed: see BuiltinProgram::Settings.
  int processes_fd = -1;
  int cgroup_fd = -1;
};

// Describes the programs of a run.
struct ProgramInfo {
  struct Program {
    std::string name;
    bool is_session = false; // it runs at entries and at returns
  };

  std::string name; // as in `attached` records
  std::vector<ProbeRequest> probe_requests = {};
  // The user's programs, indexed by ProbeRequest::program; empty for the built-in one.
  std::vector<Program> programs = {};
  std::size_t other_programs = 0; // that are not attached to probes
  bool checks_exits = false;      // it decides whether a conditional jump leaves the function
  // See MechanismNeeds. Known from prepare() on.
  std::optional<bpf::ProgramKind> kind = {};

  // When a program runs at a site: "entry", "return", "entry and return".
  std::string_view phase_of(const PlannedSite& site) const {
    if (!programs.empty() && programs[site.program].is_session) return "entry and return";
    return site.on_return ? "return" : "entry";
  }
};

// Says how the programs are attached and what they filter.
struct LoadRequest {
  probe::Mechanism mechanism = probe::Mechanism::multi;
  ProgramFilter filter = {};    // a user's programs ignore it
  std::vector<pid_t> pids = {}; // pids of the process filter, and of processes that its names match
};

// Says whose cost is measured.
enum class CostOf {
  call, // of the first function, before the run begins, with a copy of the loaded program
  hit   // of all probes, after the last report of anything else
};

// The programs that run at the probes of a run and send its events.
class ProgramSource : public EventSource {
public:
  const ProgramInfo& info() const { return info_; }

  // Checks the values that the request captures, compares, counts and measures, as far as this is
  // possible by the files of the probes. For a dry run, which does not ask the kernel and loads
  // nothing.
  virtual Result<void> check_values(const ResolvedProbes& /*resolved*/) { return {}; }

  // Chooses what depends on the kernel and not on the probes. Called before other functions that
  // use the kernel.
  virtual Result<void> prepare(const bpf::KernelFeatures& features) = 0;

  // Loads the programs and sets the program and cookie of each site. May be called again with fewer
  // probes. Borrows the probes and the descriptors of the filter.
  virtual Result<void> load(const LoadRequest& request, ResolvedProbes& resolved) = 0;

  // Returns what the events of a probe have; nullopt for a user's program. Valid after load() or
  // check_values().
  virtual std::optional<events::PointDescription> describe(const Probe& /*probe*/) const {
    return std::nullopt;
  }

  // Warns about limits of what the probes will show. Called after load() or check_values().
  virtual void report_cautions() const = 0;

  // Makes the parts of the run and lets the programs record. Called when all probes are attached.
  virtual Result<void> start(const HitProcesses& processes) = 0;
  // Ends the recording. Called before the first probe is detached.
  virtual Result<void> stop() = 0;

  // Sets the results of each probe so far.
  virtual void count_hits(std::span<Probe> probes) const = 0;
  // Measures what hits cost the probed processes. Returns nullopt if that is not known or not worth
  // it.
  virtual std::optional<HitCost> measure_cost(CostOf /*what*/) const { return std::nullopt; }

  // Reports what was requested for the end of the run. Called after the last report_aggregates().
  virtual ProgramResults finish() = 0;

protected:
  explicit ProgramSource(ProgramInfo info) : info_(std::move(info)) {}

  ProgramInfo info_;
};

// Returns the requests for the probes of the built-in program.
std::vector<ProbeRequest> builtin_probe_requests(const AttachRequest& request);

// Borrows the arguments.
std::unique_ptr<ProgramSource> make_builtin_source(const AttachRequest& request,
                                                   BinaryCache& binaries, output::Output& output);

// Opens the object and selects its programs, or takes a pin. Fails with not_found, ambiguous, ...
Result<std::unique_ptr<ProgramSource>> make_user_source(const AttachRequest& request,
                                                        output::Output& output);

} // namespace uprobectl::trace
