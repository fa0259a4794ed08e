// SPDX-License-Identifier: Apache-2.0
// The interface to the BPF programs of a run: the built-in one, or those of a user.
#pragma once

#include "bpf/object.hpp"
#include "trace/event_source.hpp"
#include "trace/hit_stacks.hpp"
#include "trace/probes.hpp"
#include "trace/trace.hpp"

namespace uprobectl {

class BinaryCache;

// The hits that the program keeps; it drops those of other processes.
struct ProgramFilter {
  unsigned filters = 0; // FILTER_… of bpf/record.h
  std::uint32_t user = 0;
  int processes = -1; // see BuiltinProgram::Settings
  int cgroup = -1;
};

// The programs that run at the probes of a run and send its events.
class ProbeProgram : public EventSource {
public:
  virtual std::string name() const = 0; // as in `attached` records
  virtual std::vector<ProbeRequest> probe_requests() const = 0;
  virtual std::size_t other_programs() const = 0; // programs that are not attached to probes

  // Called before other functions that use the kernel. From then on kind() is known.
  virtual Result<void> prepare(const KernelFeatures& features) = 0;
  virtual std::optional<ProgramKind> kind() const = 0; // see MechanismNeeds
  // Called before load(). Borrows the descriptors of the filter. A user's programs ignore it.
  virtual void set_filter(const ProgramFilter& /*filter*/) {}

  // The pids of the process filter and of its names. Called before load().
  virtual void set_pids(std::span<const pid_t> /*pids*/) {}

  // Returns true if the programs can check at a conditional jump whether it leaves the function.
  virtual bool checks_exits() const = 0;

  // Moves probes from the first instruction of their functions behind the prologue, if parameters
  // can be read only there. Names of `groups` that all functions have for a variable are values
  // from then on. Called before load().
  virtual void place(ResolvedProbes& /*resolved*/, GroupSpec& /*groups*/) {}

  // Loads the programs for the mechanism and sets the program and cookie of each site. May be
  // called again with fewer probes. Borrows the probes.
  virtual Result<void> load(Mechanism mechanism, ResolvedProbes& resolved) = 0;

  // Returns the name of a user's program by ProbeRequest::program; empty of the built-in one.
  virtual std::string_view program_name(std::size_t /*program*/) const { return {}; }
  // When that program runs at a site: "entry", "return", "entry and return".
  virtual std::string_view program_phase(const PlannedSite& site) const {
    return site.on_return ? "return" : "entry";
  }

  // What the events of a probe have; nullopt for a user's program. Valid after load().
  virtual std::optional<PointDescription> describe(const Probe& /*probe*/) const {
    return std::nullopt;
  }

  // Warns about limits of what the probes will show. Called after load().
  virtual void report_cautions() const {}

  // Called when all probes are attached.
  virtual Result<void> start(const HitProcesses& who) = 0;
  virtual Result<void> stop() = 0; // called before the first probe is detached

  // Returns why more events may be lost than losses() has; empty if it has all. Valid after load().
  virtual std::string uncounted_losses() const { return {}; }
  virtual std::uint64_t corrupt() const = 0; // records of an unexpected size; they are shown raw
  // Sets the hits of each probe so far, and Probe::hidden_reason.
  virtual void count_hits(std::span<Probe> probes) const = 0;
  // False if a function was to start the recording and was not hit.
  virtual bool has_started() const { return true; }
  // Measures what the hits of the run have cost the probed processes, after the last report of
  // anything else. nullopt if that is not known or not worth it.
  virtual std::optional<HitCost> measure_cost() const { return std::nullopt; }
  // Measures what a call of a probed function costs before the run begins, with a copy of the
  // loaded program. nullopt if that is not known.
  virtual std::optional<std::chrono::nanoseconds> measure_expected_cost() const {
    return std::nullopt;
  }
  // The totals of the requested stacks; null if none were requested.
  virtual const StackTotals* stacks() { return nullptr; }
  // The number of calls that had not returned when the run, or their process, ended; nullopt if
  // calls are not paired.
  virtual std::optional<std::uint64_t> open_calls() const { return std::nullopt; }
  // The number of hits in reported stack counts whose stack the kernel could not store.
  virtual std::uint64_t without_stack() const { return 0; }
  // The number of hits that were left out because their process is outside of this pid namespace.
  virtual std::uint64_t invisible_hits() const { return 0; }
  // The number of records that were counted instead of shown; nullopt if none are counted.
  virtual std::optional<std::uint64_t> counted_records() const { return std::nullopt; }
  // Reports the spans at the end of the run: the open ones, if requested, and the counts of all.
  virtual void report_spans() {}
  // Prints the requested maps at the end of the run.
  virtual void show_maps() {}
};

// Borrows the arguments. `exports`: also receive stacks and counts.
std::unique_ptr<ProbeProgram> make_builtin_source(const AttachRequest& request,
                                                  BinaryCache& binaries, Exports& exports,
                                                  Output& output);

// Opens the object and selects its programs, or takes a pin. Fails with not_found, ambiguous, ...
Result<std::unique_ptr<ProbeProgram>> make_user_source(const AttachRequest& request,
                                                       Exports& exports, Output& output);

} // namespace uprobectl
