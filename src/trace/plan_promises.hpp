// SPDX-License-Identifier: Apache-2.0
// What an attach plan promises about the files that it is for, and which promises another build
// breaks.
#pragma once

#include "output/verdict.hpp"
#include "plans/attach_plan.hpp"
#include "verify/verify.hpp"

namespace uprobectl::trace {

// A file of a plan, and the file that is compared with it: a path, or the entry of an archive.
struct PromisedFile {
  const plans::PlannedFile* planned = nullptr; // never null
  std::string target = {};
};

// Finds what the TARGETs of the plan mean here. `targets` replace them, as those of
// `resolve --verify` do. Fails with usage if it is not clear which one is which.
Result<std::vector<PromisedFile>> find_promised(const plans::AttachPlan& plan,
                                                std::span<const std::string> targets,
                                                const resolve::TargetOptions& where);

// Compares the plan's functions with those of the files by name: their addresses, exits, and what
// the plan knows of values: types, members, locations. Functions that the plan does not have are
// not findings. Reports what cannot be read.
output::Verdict check_promises(const plans::AttachPlan& plan, std::span<const PromisedFile> files,
                               const resolve::TargetOptions& where, output::Output& output);

} // namespace uprobectl::trace
