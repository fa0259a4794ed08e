// SPDX-License-Identifier: Apache-2.0
// Attach plans: makes one from resolved probes, and finds its points in the files of this machine.
#pragma once

#include "trace/probes.hpp"
#include "trace/returns.hpp"

namespace uprobectl::trace {

// Makes an attach plan of the probes of a request. Fails with unsupported if a plan cannot have
// something that was requested.
Result<plans::AttachPlan> make_plan(const AttachRequest& request, const ResolvedProbes& resolved,
                                    BinaryCache& binaries);

// The points of a TARGET's FUNCTIONs, as a plan has them.
struct PlannedPoints {
  // The points by the index of the FUNCTION. Empty: no file here has a point of it.
  std::vector<std::vector<resolve::ProbePoint>> points;
  std::vector<std::optional<Error>> errors; // the first of each FUNCTION
  std::vector<std::string> warnings;
};

// Finds the files that a TARGET of the plan means here, checks that they are the planned builds,
// and the instruction at each point. A path that does not exist here stands for the file of the
// same name. What the plan knows about the functions is given to `binaries`. If the file is of
// another build, writes which promises of the plan it breaks.
Result<PlannedPoints> find_planned(const plans::AttachPlan& plan, const std::string& target,
                                   std::span<const std::string> functions,
                                   const resolve::TargetOptions& where,
                                   const resolve::ResolveOptions& how, BinaryCache& binaries,
                                   output::Output& output);

// Makes a plan of the request's functions of `target`, resolved in `file`. The plan has no values:
// the run with the plan can get the debug information.
Result<plans::AttachPlan> plan_target(const AttachRequest& request, const std::string& target,
                                      const std::string& file, output::Output& output);

// Requests the plan of a file that TARGET means from the workstation. Returns nullopt if the
// workstation has no symbols of this build.
Result<std::optional<plans::AttachPlan>>
request_plan(const elf::Image& image, const std::string& target, Workstation& workstation);

} // namespace uprobectl::trace
