// The options of attach that say what is captured at each hit, user stacks among it, and what is
// shown of it.
#pragma once

#include "console.hpp"
#include "option_parser.hpp"
#include "uprobectl/session.hpp"

#include <chrono>

namespace uprobectl::cli {

// What stands behind TARGET.
enum class ProbeWords { functions, static_probes };

struct InspectionOptions {
  bool entry = false;
  bool on_return = false;
  std::optional<std::string> return_at;
  std::vector<std::string> arguments;
  std::vector<std::string> conditions;
  std::optional<std::uint64_t> longest_text;
  bool registers = false;
  bool latency = false;
  std::optional<std::chrono::nanoseconds> min_latency;
  bool count = false;
  bool per_process = false;
  bool histogram = false;
  std::optional<std::string> measured;
  std::optional<std::chrono::nanoseconds> interval;
  std::optional<std::uint64_t> top;
  std::vector<std::string> excluded;
  std::optional<std::uint64_t> expected;
};

void bind_inspection_options(OptionParser& parser, InspectionOptions& options, ProbeWords words);

// Into a request whose program and kind of probes is set. A usage error where options do not go
// together.
Result<void> apply(const OptionParser& parser, const InspectionOptions& options,
                   AttachRequest& request);

struct StackOptions {
  std::optional<std::string> how;
  bool by_frame_data = false; // -g
  std::optional<std::string> call_graph;
  std::optional<std::uint64_t> size;
  std::optional<std::string> kept;
  std::optional<std::string> folded;
  std::optional<std::string> flame_graph;
};

void bind_stack_options(OptionParser& parser, StackOptions& options);

// Into a request of which is known whether its hits are counted, and whose program. `common`: where
// the records go, and how.
Result<void> apply(const OptionParser& parser, const StackOptions& options,
                   const CommonOptions& common, AttachRequest& request);

// "uprobectl attach -d 5s libc.so.6 'mem*'", as a shell would take it.
std::string command_line(std::string_view command, std::span<const std::string_view> arguments);

} // namespace uprobectl::cli
