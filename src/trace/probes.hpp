// SPDX-License-Identifier: Apache-2.0
// The probes of a run: where each one is, the uprobes that make it up, and what became of it.
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

namespace uprobectl {

// FUNCTIONs of one TARGET, and which of the program's programs is to run there.
struct ProbeRequest {
  std::string target;
  std::vector<std::string> functions;
  bool static_probes = false; // which the functions then name
  std::size_t program = 0;
  bool on_entry = true;
  bool on_return = false;
  bool by_trampoline = false; // returns by the kernel's return probe, as the program's section says
};

// A place where a function can be left.
struct PlannedExit {
  FileOffset offset;
  std::uint32_t rule = 0; // of ResolvedProbes::exit_rules
};

// A uprobe of a probe.
struct PlannedSite {
  std::size_t program = 0; // as ProbeRequest::program numbers them
  bool on_return = false;
  bool by_trampoline = false;
  std::optional<PlannedExit> exit = {}; // of on_return; nullopt: by the kernel's return probe
  // Set by ProbeProgram::load().
  LoadedProgram loaded = {};
  std::uint64_t cookie = 0;
};

// What is known of an unhit probe besides who maps it.
struct UnhitFacts {
  FileChange change = FileChange::none; // of the probed file since it was opened
  // Descendants of the processes that are probed, not probed themselves, that map it executable.
  std::vector<pid_t> children = {};
  bool takes_pids = true; // the command has -p
  // At how many places the function is inlined, if debug info tells.
  std::optional<std::uint64_t> inlined = {};
  bool file_was_hit = false; // at another probe, so that a process maps it
};

// A probed place. A static probe has one for each of its places: they are attached together and
// reported as one probe.
struct Probe {
  std::size_t number = 0; // its index in Probes, which records of the built-in program name
  std::size_t first = 0;  // the first place of the same static probe; of a function its own number
  ProbePoint point;
  std::vector<PlannedSite> sites = {};

  // How it went. Exact; nullopt if it is not known.
  std::optional<std::uint64_t> hits = {};
  std::optional<std::uint64_t> total_hits = {}; // of all places; only the first one has it
  std::string hidden_reason = {};               // why hits were seen and not shown, or empty
  MappingSurvey survey = {};                    // who maps the place, or did during the run
  UnhitFacts facts = {};

  bool is_first() const { return first == number; }
};

// Numbers its probes in their order.
class Probes {
public:
  Probe& add(ProbePoint point);
  // Probes that follow a removed one get other numbers.
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
  // The first place of each static probe, by its file, ELF image and name.
  std::map<std::tuple<FileIdentity, std::uint64_t, std::string>, std::size_t> first_places_;
};

struct ProbeTotals {
  std::size_t probes = 0;
  std::size_t static_places = 0; // of static probes
};
ProbeTotals probe_totals(std::span<const Probe> probes);

// Sets Probe::total_hits. It is not known if the hits of one place are not.
void add_up_hits(std::span<Probe> probes);

struct Failure {
  std::string target;   // as typed
  std::string function; // as typed
  Error error;
};

struct ResolvedProbes {
  Probes probes;
  std::vector<exit_rule> exit_rules; // the first is that of return instructions
  std::vector<Failure> failures;
};

// Every FUNCTION for itself, in every file that its TARGET means. Warnings are said, each once;
// failures of FUNCTIONs are left to the caller. An error where no file can be asked, wrong_machine
// where none of the processes can run what is in it.
Result<ResolvedProbes> resolve_requests(std::span<const ProbeRequest> probe_requests,
                                        const ProbeSelection& selection,
                                        const TargetOptions& options, Output& output);

// What keeps a run from going on: the only FUNCTION's own failure, or how many of them failed. The
// failures that are not what is returned are reported.
Result<void> check_failures(std::size_t functions, const ProbeSelection& selection,
                            const ResolvedProbes& resolved, Output& output);

// Whether the point is one of many that a pattern stands for, which nobody has named by itself.
bool is_pattern_match(const ProbePoint& point);

// Removes the probes that have a site at such an instruction, and a static probe's with all of
// its places. For a FUNCTION that names them this is a failure; of a pattern's they are left out
// with one warning for each reason, unless none is left.
void skip_unprobeable(ResolvedProbes& resolved, Output& output);

} // namespace uprobectl
