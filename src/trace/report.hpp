// SPDX-License-Identifier: Apache-2.0
// What is said at the start and at the end of a run.
#pragma once

#include "output/output.hpp"
#include "process/child.hpp"
#include "trace/hit_stacks.hpp"
#include "trace/probes.hpp"
#include "trace/run_loop.hpp"
#include "uprobectl/process.hpp"

namespace uprobectl {

// "probing 3 functions in 2 processes for 10s (ctrl-c ends earlier, -d forever)"
// `others`: programs that run elsewhere than at probes.
std::string start_line(const AttachRequest& request, const ProbeTotals& totals, std::size_t others);

// "10s", "1.5s", "250ms", "2m": the largest unit that needs at most three decimals.
std::string format_duration(std::chrono::nanoseconds duration);

// The instruction at each place, where the request asked for them.
void show_instructions(std::span<const Probe> probes, Output& output);

struct RunEnd {
  std::span<Probe> probes;            // with their hits
  std::span<const pid_t> pids;        // of the processes that are probed
  std::string no_process_reason = {}; // why there are no pids, though not everybody is probed
  bool only_counted = false;          // no events were asked for
  RunTotals totals;
  std::uint64_t corrupt = 0; // records of an odd size
  std::chrono::nanoseconds duration{};
  bool detached_cleanly = false;
  std::optional<ChildEnd> command_end = {};
  bool follows_children = false;                  // no descendant of the pids is left out
  std::span<const std::string> debug_places = {}; // --debug-dir
  std::optional<std::uint64_t> open_calls = {};   // where calls are paired
  const StackTotals* stacks = nullptr;            // where they were asked for
  bool copies_stacks = false;                     // to unwind them, as against addresses alone
};

// The `probe` records, one line for each unhit probe, and the summary.
void report_end(const RunEnd& end, Output& output);

// Reports a failure for each probe with fewer hits than expected, or an unknown number.
void check_expected_hits(std::uint64_t expected, std::span<const Probe> probes, Output& output);

// Reports the stacks that are not whole, with the option that would help.
void report_stacks(const StackTotals& totals, const CaptureSpec& capture,
                   const StackOutputs& outputs, Output& output);

// Hits that the kernel has counted by stack but whose stack it could not keep; nothing where there
// are none.
void report_without_stack(std::uint64_t hits, Output& output);

// "10s, 4711 stacks, 2 of them cut off": what stands below a flame graph's title. Without totals
// the stacks were counted by the kernel.
std::string flame_graph_subtitle(std::chrono::nanoseconds duration, const StackTotals* totals);

} // namespace uprobectl
