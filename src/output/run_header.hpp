// SPDX-License-Identifier: Apache-2.0
// What a run was asked for, and where. Saved runs begin with it, and exports get it.
#pragma once

#include "output/call_graph.hpp"
#include "output/flame_graph.hpp"
#include "uprobectl/arch.hpp"

namespace uprobectl::output {

// How nested calls are shown.
struct GraphOptions {
  bool shows_calls = false; // as a tree, instead of events
  bool reports = false;     // at the end
  ReportOptions report = {};
  std::optional<std::uint32_t> depth = {}; // only this many levels
};

// How a run has nested and shown its calls.
struct GraphHeader : GraphOptions {
  std::uint64_t min_latency_ns = 0; // of the calls that are shown
  // Trees are only shown if their root takes at least this long and fulfils the conditions (as
  // typed).
  std::uint64_t root_min_latency_ns = 0;
  std::vector<std::string> root_conditions = {};
};

// How stacks were copied that are unwound when the run is read.
struct RawStackHeader {
  std::uint32_t stack_bytes = 0; // the most that were copied of a stack
  bool source_lines = false;     // frames have source lines
};

struct RunHeader {
  std::string version = {}; // of uprobectl
  Arch arch = host_arch;
  std::string command = {};              // the command line
  bool sends_events = true;              // otherwise hits were only counted
  bool has_stacks = false;               // hits have them; a caller alone (--caller) is not a stack
  bool weighs_time = false;              // calls have durations, which are the weights of profiles
  std::optional<GraphHeader> graph = {}; // if it nests calls, which replace events in exports
  // Stacks weigh StackSample::value, in this unit, instead of their hits or time.
  std::optional<std::string> value_unit = {};
  FlameView view = FlameView::callees; // of flame graphs
  bool sends_latencies = false;        // as histograms
  std::optional<RawStackHeader> raw_stacks = {};
  std::string system = {};   // see describe_system()
  bool runs_program = false; // a user's program runs: its records may have stacks

  bool may_have_stacks() const { return has_stacks || runs_program; }
};

} // namespace uprobectl::output
