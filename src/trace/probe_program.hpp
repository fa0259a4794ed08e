// SPDX-License-Identifier: Apache-2.0
// The programs that run at the probes: the built-in one, or those of a user. The rest of the module
// does not know which.
#pragma once

#include "bpf/object.hpp"
#include "trace/event_source.hpp"
#include "trace/hit_stacks.hpp"
#include "trace/probes.hpp"
#include "trace/trace.hpp"

namespace uprobectl {

class FunctionReaderCache;

// Whose hits the program is to look at; those of others it passes over.
struct ProgramFilter {
  unsigned filters = 0; // FILTER_… of bpf/record.h
  std::uint32_t user = 0;
  int processes = -1; // as BuiltinProgram::Settings has them
  int cgroup = -1;
};

// The programs that run at the probes of a run and send its events.
class ProbeProgram : public EventSource {
public:
  virtual std::string name() const = 0; // as `attached` tells it
  virtual std::vector<ProbeRequest> probe_requests() const = 0;
  virtual std::size_t others() const = 0; // programs that run elsewhere than at probes

  // Before anything else of the kernel's: afterwards kind() is known.
  virtual Result<void> prepare(const KernelFeatures& features) = 0;
  virtual std::optional<ProgramKind> kind() const = 0; // as MechanismNeeds has it
  // Before load(); what it names is borrowed. Users' programs filter themselves.
  virtual void set_filter(const ProgramFilter& /*filter*/) {}

  // Whether its programs can be told when a conditional exit is one.
  virtual bool checks_exits() const = 0;

  // Loads the programs for the mechanism and gives each site its program and cookie. May be called
  // again with fewer probes; these are borrowed.
  virtual Result<void> load(Mechanism mechanism, ResolvedProbes& resolved) = 0;

  // After load(): what a person should know of what the probes will show.
  virtual void report_cautions() const {}

  // The last probe is in place.
  virtual Result<void> start(const HitProcesses& who) = 0;
  virtual Result<void> stop() = 0; // before the first one is taken away

  virtual std::uint64_t corrupt() const = 0; // records of an odd size, which are shown raw
  // Sets the hits of each probe so far, and why they were left out.
  virtual void count_hits(std::span<Probe> probes) const = 0;
  // What became of the stacks that were asked for; null where there are none.
  virtual const StackTotals* stacks() { return nullptr; }
  // Calls that were entered and had not returned at the end of the run, or of their process;
  // nothing where calls are not paired.
  virtual std::optional<std::uint64_t> open_calls() const { return std::nullopt; }
  // Hits that report_aggregates() has told as counted by stack, without one: the kernel could not
  // keep it.
  virtual std::uint64_t without_stack() const { return 0; }
  // The maps that were asked for, at the end.
  virtual void show_maps() const = 0;
};

// Borrows all of it. `files`: where stacks go besides.
std::unique_ptr<ProbeProgram> make_builtin_source(const AttachRequest& request,
                                                  FunctionReaderCache& readers, StackFiles& files,
                                                  Output& output);

// Opens the object, if it is one, and chooses its programs. not_found, ambiguous, ...
Result<std::unique_ptr<ProbeProgram>> make_user_source(const AttachRequest& request,
                                                       StackFiles& files, Output& output);

} // namespace uprobectl
