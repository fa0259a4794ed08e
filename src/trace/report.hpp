// SPDX-License-Identifier: Apache-2.0
// Reports the start and the end of a run: status lines, `probe` records, warnings, the summary.
#pragma once

#include "output/output.hpp"
#include "process/child.hpp"
#include "trace/hit_stacks.hpp"
#include "trace/probes.hpp"
#include "trace/program_source.hpp"
#include "trace/run_loop.hpp"
#include "uprobectl/process.hpp"

#include <map>

namespace uprobectl::trace {

// "probing 3 functions in 2 processes for 10s (ctrl-c ends earlier, -d forever)"
// `other_programs` is the number of programs that are not attached to probes.
std::string start_line(const AttachRequest& request, const ProbeTotals& totals,
                       std::size_t other_programs);

// "10s", "1.5s", "250ms", "2m": the largest unit that needs at most three decimals.
std::string format_duration(std::chrono::nanoseconds duration);

// "2 lost", "lost: not known (the program has no map 'lost' …)". `uncounted`: why more may be lost;
// empty if not.
std::string describe_lost(std::uint64_t known, std::string_view uncounted);

// Writes the points of a dry run, once for each program of the user that would be attached there.
void show_probes(std::span<const Probe> probes, const ProgramInfo& programs,
                 output::Output& output);

// Prints the instruction at each probe that has one (--instruction).
void show_instructions(std::span<const Probe> probes, output::Output& output);

// Returns the functions whose calls were left without a return, with the numbers: "f (3), g (1)".
std::string list_unreturned(std::span<const Probe> probes);

// The data that the reports at the end of a run use.
struct RunEnd {
  std::span<Probe> probes;            // with their hits
  std::span<const pid_t> pids;        // of the target processes
  std::string no_process_reason = {}; // why there are no target processes; empty if there are some,
                                      // or if the run is system-wide
  bool only_counted = false;          // the run counts hits and sends no events
  ProgramResults results = {};
  RunTotals totals;
  std::optional<WindowTotals> window = {}; // if events waited for a trigger
  std::chrono::nanoseconds duration{};
  bool detached_cleanly = false;
  std::optional<process::ChildEnd> command_end = {};
  bool follows_children = false;                      // descendants of the pids are probed, too
  BinaryCache* binaries = nullptr;                    // of the run; never null
  std::map<std::size_t, std::string> incomplete = {}; // why hits may be missing, by probe
  events::EventLimits limits = {};
  std::optional<HitCost> cost = {};
  bool copies_stacks = false; // stacks are copied and unwound, not walked by the kernel
  bool unwinds_stacks = true; // false if another machine does
};

// Writes the `probe` records, one line for each unhit probe, and the summary.
void report_end(const RunEnd& end, output::Output& output);

// Reports a failure for each probe with fewer hits than expected, or an unknown number.
void check_expected_hits(std::uint64_t expected, std::span<const Probe> probes,
                         output::Output& output);

// Reports truncated and incomplete stacks, with the option that helps.
void report_stacks(const StackTotals& totals, const events::CaptureSpec& capture,
                   const StackOutputs& outputs, output::Output& output);

// Reports hits that the kernel counted, or kept in spans, without the stack that it could not
// store. Prints nothing for 0.
void report_without_stack(std::uint64_t hits, bool of_spans, output::Output& output);

// Reports hits in processes outside of this pid namespace. Prints nothing without any.
void report_invisible(std::span<const Probe> probes, output::Output& output);

// Returns the line below a flame graph's title: "10s, 4711 stacks, 2 of them truncated". `totals`
// is null if the kernel counted the stacks.
std::string flame_graph_subtitle(std::chrono::nanoseconds duration, const StackTotals* totals);

} // namespace uprobectl::trace
