// SPDX-License-Identifier: Apache-2.0
// From the FUNCTIONs of a request to the places that are to be probed.
#pragma once

#include "trace/probe_program.hpp"

namespace uprobectl {

// Every FUNCTION for itself, in every file that its TARGET means. Warnings are said, each once;
// failures of FUNCTIONs are left to the caller. An error where no file can be asked, wrong_machine
// where none of the processes can run what is in it.
Result<Resolved> resolve_questions(std::span<const ProbeRequest> questions,
                                   const ProbeSelection& selection, const TargetOptions& options,
                                   Output& output);

// What keeps a run from going on: the only FUNCTION's own failure, or how many of them failed. The
// failures that are not what is returned are reported.
Result<void> check_failures(std::size_t functions, const ProbeSelection& selection,
                            const Resolved& resolved, Output& output);

// Whether the point is one of many that a pattern stands for, which nobody has named by itself.
bool is_of_pattern(const ProbePoint& point);

// Removes the probes that have a site at such an instruction, and a static probe's with all of
// its places. For a FUNCTION that names them this is a failure; of a pattern's they are left out
// with one warning for each reason, unless none is left.
void skip_unprobeable(Resolved& resolved, Output& output);

} // namespace uprobectl
