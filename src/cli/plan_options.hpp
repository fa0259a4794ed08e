// SPDX-License-Identifier: Apache-2.0
// --plan and --write-plan of attach.
#pragma once

#include "option_parser.hpp"
#include "output/output.hpp"
#include "trace/trace.hpp"

namespace uprobectl::cli {

struct PlanOptions {
  std::optional<std::string> plan;    // a file to attach
  std::optional<std::string> written; // a file to write
};

void bind_plan_options(OptionParser& parser, PlanOptions& options);

// The command line of a run of attach with its plan.
struct PlannedArguments {
  std::shared_ptr<const plans::AttachPlan> plan = {}; // of --plan; or null
  // The options of the plan, which come before the arguments.
  std::span<const std::string> options() const {
    return plan ? std::span<const std::string>(plan->options) : std::span<const std::string>();
  }
  // The options to keep in the plan (--write-plan).
  std::vector<std::string> kept = {};
};

// Reads the file of --plan, and finds the options for the one of --write-plan. Does nothing if the
// arguments are wrong otherwise. Fails with usage for options that cannot be in a plan.
Result<PlannedArguments> read_plan_options(std::span<const std::string_view> arguments,
                                           Workstation& workstation);

// Reads a plan whose options are ones that a plan can have. "-": stdin.
Result<std::shared_ptr<const plans::AttachPlan>> read_plan_file(const std::string& path,
                                                                Workstation& workstation);

// Sets what to probe: the functions of the plan, in the TARGET of the words if there is one.
Result<void> apply_plan(const OptionParser& parser, const plans::AttachPlan& plan,
                        std::span<const std::string_view> words, trace::ProbeSelection& probes);

// Writes a plan to the file; "-" is the output.
Result<void> write_plan_file(const std::string& path, plans::AttachPlan plan,
                             std::vector<std::string> options, output::Output& output);

} // namespace uprobectl::cli
