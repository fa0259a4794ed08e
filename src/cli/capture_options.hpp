// SPDX-License-Identifier: Apache-2.0
// The options of attach for fetch arguments, aggregation and user stacks.
#pragma once

#include "console.hpp"
#include "option_parser.hpp"
#include "option_values.hpp"
#include "trace/trace.hpp"

#include <chrono>

namespace uprobectl::cli {

// The probes of attach and usdt attach.
enum class ProbeKind { functions, static_probes };

// Options that apply() puts into a request. The others are read straight into it.
struct CaptureOptions {
  bool entry = false;
  bool on_return = false;
  std::optional<std::string> return_at;
  std::vector<std::string> arguments;
  std::vector<std::string> prototypes; // files
  std::vector<std::string> conditions;
  std::optional<std::uint64_t> max_string_bytes;
  bool latency = false;
  bool latency_is_implied = false; // by --live
  bool cpu = false;
  std::optional<std::string> off_cpu; // which waits have stacks
  std::optional<std::chrono::nanoseconds> min_latency;
  std::optional<std::string> by;
  std::optional<std::string> measured;
  std::optional<std::string> sample;
  std::optional<std::string> max_rate;
  std::vector<std::string> start_on;
  std::vector<std::string> stop_on;
  std::optional<std::string> on_hit;
  std::optional<std::string> keep;
  std::vector<std::string> until;
  std::vector<std::string> spans;
  std::optional<std::string> open;
  bool graph = false;
  std::vector<std::string> graph_roots;
  std::optional<std::uint64_t> graph_depth;
  std::optional<std::uint64_t> graph_limit;
  std::optional<std::chrono::nanoseconds> root_min_latency;
  std::vector<std::string> root_conditions;
  bool report = false;
  std::optional<std::string> report_sort;
  std::optional<std::string> report_function;
};

void bind_capture_options(OptionParser& parser, CaptureOptions& options,
                          trace::AttachRequest& request, ProbeKind words);

// Adds the conditions of an option. Their files are read from the user's machine.
Result<void> add_conditions(events::Filter& filter, std::span<const std::string> texts,
                            Workstation& workstation, std::string_view option = "--if");

// Applies the options to a request, whose program and kind of probes must be set. usage if options
// cannot be combined.
Result<void> apply(const OptionParser& parser, const CaptureOptions& options,
                   Workstation& workstation, trace::AttachRequest& request);

CountReader graph_depth_reader();

// The files that all stacks are written to.
struct StackFiles {
  std::optional<std::string> folded;
  std::optional<std::string> flame_graph;
};
void bind_stack_files(OptionParser& parser, StackFiles& files);

// Returns the exports of -o and of the stack files. usage if one would overwrite another, or the
// records.
Result<std::vector<output::ExportRequest>>
list_exports(const OptionParser& parser, const StackFiles& files, const CommonOptions& common);

// Whether the stack files are written instead of the events.
bool replace_events(const StackFiles& files, const CommonOptions& common);

struct StackOptions {
  std::optional<std::string> how;
  std::optional<std::uint64_t> size;
  StackFiles files;
  std::optional<std::string> weight;
  std::optional<std::string> unwind_on;
};

void bind_stack_options(OptionParser& parser, StackOptions& options, trace::AttachRequest& request);

// Applies the options for stacks to the request. The aggregates and the program of the request must
// be set. `common` has the destination and format of the records.
Result<void> apply(const OptionParser& parser, const StackOptions& options,
                   const CommonOptions& common, trace::AttachRequest& request);

// Returns the command line, for example "uprobectl attach -d 5s libc.so.6 'mem*'", quoted for a
// shell.
std::string command_line(std::string_view command, std::span<const std::string_view> arguments);

} // namespace uprobectl::cli
