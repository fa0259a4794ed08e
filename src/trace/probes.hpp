// SPDX-License-Identifier: Apache-2.0
// The probes of a run: what was requested, what it resolved to, the uprobes, and the hits.
#pragma once

#include "bpf/bpf.hpp"
#include "bpf/record.h"
#include "output/output.hpp"
#include "trace/trace.hpp"
#include "uprobectl/process.hpp"
#include "uprobectl/resolve.hpp"

#include <functional>
#include <map>
#include <span>
#include <tuple>
#include <vector>

namespace uprobectl::trace {

class BinaryCache;
class TypedProbes;

// FUNCTIONs of one TARGET, and the index of the program to run there.
struct ProbeRequest {
  std::string target;
  std::vector<std::string> functions;
  bool static_probes = false; // `functions` are PROVIDER:NAME patterns
  std::size_t program = 0;
  bool on_entry = true;
  bool on_return = false;
  bool by_uretprobe = false;  // the program's section asks for a uretprobe
  std::uint32_t triggers = 0; // enum trigger_flag; if not 0, the functions are only probed for this
  bool graph_roots = false;   // the functions are those of GraphSpec::roots
  std::vector<events::SpanRole> roles = {};
  bool is_optional = false; // a FUNCTION that does not exist is not a failure

  // Whether the run cannot go on without these functions, see Probe::is_required().
  bool is_required() const { return triggers != 0 || graph_roots || !roles.empty(); }
};

// Returns a request like `model` for the functions of each TARGET, in the order of the TARGETs.
std::vector<ProbeRequest> split_by_target(std::span<const resolve::TargetedFunction> functions,
                                          const ProbeRequest& model);

// An instruction that can leave a function.
struct PlannedExit {
  FileOffset offset;
  std::uint32_t rule = 0;        // index into ResolvedProbes::exit_rules
  insn::ProbeEffect effect = {}; // of a probe there
  std::size_t depth = 0; // number of tail calls from the probed function to the one with this exit
};

// One uprobe of a probe.
struct PlannedSite {
  std::size_t program = 0; // see ProbeRequest::program
  bool on_return = false;
  bool by_uretprobe = false;            // see ProbeRequest::by_uretprobe
  std::optional<PlannedExit> exit = {}; // if on_return; nullopt: it is a uretprobe
  // Set by ProgramSource::load().
  bpf::LoadedProgram loaded = {};
  std::uint64_t cookie = 0;
};

// Facts about an unhit probe, besides the processes that map it.
struct UnhitFacts {
  FileChange change = FileChange::none; // change of the probed file since it was opened
  // Descendants of the target processes, not only children: those that are not probed themselves,
  // and map the file executable.
  std::vector<pid_t> children = {};
  bool takes_pids = true; // the command has the option -p
  // Number of addresses where the function is inlined; nullopt without debug info.
  std::optional<std::uint64_t> inlined = {};
  bool file_was_hit = false; // another probe in the file was hit, so some process maps it
  // Why a process that maps the file has no breakpoint there; empty if none is known.
  std::string without_breakpoint = {};
  // Another file of a process that defines a function of this name: "process 4711 (app) maps
  // another 'malloc', too: /usr/lib/libjemalloc.so.2".
  std::string other_definition = {};
};

// The cost of a run for the probed processes.
struct HitCost {
  std::uint64_t hits = 0; // at entries and at returns, including the excluded ones
  std::chrono::nanoseconds each{0};
};

// The runs of a user's program at one probe.
struct ProgramHits {
  std::string program;
  std::string phase;                 // "entry", "return", "entry and return"
  std::optional<std::uint64_t> hits; // nullopt: not known
};

// Hits that were left out on purpose.
struct LeftOut {
  std::uint64_t sampled_out = 0;
  std::uint64_t rate_limited = 0;
};

// One probe point of a run. The points of a static probe are attached together and reported as one
// probe.
struct Probe {
  std::size_t number = 0; // its index in Probes; records of the built-in program carry it
  // The number of the first point of the same static probe; for a function, its own number.
  std::size_t first = 0;
  resolve::ProbePoint point;
  std::vector<PlannedSite> sites = {};
  std::uint32_t triggers = 0; // STARTS_RECORDING, STOPS_RECORDING, ENDS_WAITING
  bool is_graph_root = false;
  std::vector<events::SpanRole> roles = {}; // in a run with spans
  bool is_recorded = true; // its hits make events or counts; if false, it is only a trigger
  // The functions in whose exits its calls may end, because they are jumped to. Ascending.
  std::vector<VirtualAddress> callees = {};

  // Results. The counts are exact; nullopt if unknown.
  std::optional<std::uint64_t> hits = {};
  std::optional<std::uint64_t> total_hits = {}; // sum over all points; set at the first one only
  std::vector<ProgramHits> programs = {};       // of a user, in the order of the sites
  LeftOut left_out = {};
  std::uint64_t excluded_hits = 0; // by a condition or the minimum latency
  std::uint64_t unreturned = 0;    // paired calls that were left without a return
  std::uint64_t ended_no_call = 0; // hits at exits of tail-called functions
  std::uint64_t invisible = 0;     // hits of processes outside of this pid namespace
  std::uint64_t shown = 0;        // hits that are shown or counted; the returns if calls are paired
  std::string hidden_reason = {}; // why hits are not shown or cannot happen; or empty
  process::MappingSurvey survey = {}; // the processes that map the point, or did so during the run
  UnhitFacts facts = {};

  bool is_first() const { return first == number; }
  // Whether the run must fail without this probe, because the run would mean something else: the
  // probe starts or stops the recording, is a trigger of --until, a root of the graph, or begins or
  // ends spans.
  bool is_required() const { return triggers != 0 || is_graph_root || !roles.empty(); }
};

// A list of probes that numbers them by their order.
class Probes {
public:
  Probe& add(resolve::ProbePoint point);
  // Renumbers the probes that follow a removed one.
  void remove_if(const std::function<bool(const Probe&)>& is_removed);

  bool empty() const { return probes_.empty(); }
  std::size_t size() const { return probes_.size(); }
  Probe& operator[](std::size_t number) { return probes_[number]; }
  const Probe& operator[](std::size_t number) const { return probes_[number]; }
  auto begin() { return probes_.begin(); }
  auto end() { return probes_.end(); }
  auto begin() const { return probes_.begin(); }
  auto end() const { return probes_.end(); }

private:
  void number(std::size_t index);

  std::vector<Probe> probes_;
  // The first point of each static probe, by its file, ELF image and name.
  std::map<std::tuple<FileIdentity, std::uint64_t, std::string>, std::size_t> first_points_;
};

// The probe counts that the start line shows.
struct ProbeTotals {
  std::size_t probes = 0;
  std::size_t static_probes = 0; // of `probes`
  std::size_t static_points = 0; // points of static probes
};
ProbeTotals probe_totals(std::span<const Probe> probes);

// Sets Probe::total_hits. A total is unknown if the hits of one point are.
void add_up_hits(std::span<Probe> probes);

// A FUNCTION that cannot be probed.
struct ProbeFailure {
  std::string target;   // as typed
  std::string function; // as typed
  Error error;
  bool is_required = false; // see Probe::is_required()
};

// The probes of a run, and the FUNCTIONs that failed.
struct ResolvedProbes {
  Probes probes;
  std::vector<exit_rule> exit_rules; // the first rule is that of return instructions
  std::vector<ProbeFailure> failures;
  insn::OptimizedNops replaced_nops = {}; // by this kernel
  // The types of the files whose probes were moved after prologues; null if no probe was moved.
  std::shared_ptr<const TypedProbes> types = {};
};

// Resolves each FUNCTION in each file that its TARGET stands for. Each warning is printed once;
// failures of single FUNCTIONs are returned. Fails if no file can be read, and with wrong_machine
// if no target process can run the code of the files; with several TARGETs the FUNCTIONs of such a
// TARGET fail instead. With an attach plan, takes the points from it, and gives `binaries` what it
// knows about the functions.
Result<ResolvedProbes> resolve_requests(std::span<const ProbeRequest> probe_requests,
                                        const ProbeSelection& selection,
                                        const resolve::TargetOptions& options,
                                        BinaryCache& binaries, output::Output& output);

// If every FUNCTION names its own TARGET: fails if the TARGET of the command does not exist.
Result<void> check_unused_target(const ProbeSelection& selection,
                                 const resolve::TargetOptions& options);

// Fails if the run cannot go on: with the failure of the only FUNCTION, or with their number after
// each was reported.
Result<void> check_failures(std::size_t functions, const ProbeSelection& selection,
                            const ResolvedProbes& resolved, output::Output& output);

// Returns true if the point was selected by a pattern or a provider, not by its own name.
bool is_pattern_match(const resolve::ProbePoint& point);

// Returns why the point has no return of its own: it is inlined, or inside of a function.
std::optional<Error> find_no_return(const resolve::ProbePoint& point);

// Removes probes (static ones as a whole) with a site at an instruction that cannot be probed.
// This is a failure for a FUNCTION that was named. Matches of a pattern are skipped with one
// warning for each reason; if none remains, the pattern fails. `programs_may_start`: see
// skip_self_checked().
void skip_unprobeable(ResolvedProbes& resolved, bool programs_may_start, output::Output& output);

} // namespace uprobectl::trace
