// The options of attach that say what the built-in program looks at at each hit, and what is shown
// of it.
#pragma once

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

} // namespace uprobectl::cli
