// SPDX-License-Identifier: Apache-2.0
// The points of the built-in program: what is captured at the probes of a run, and where.
#pragma once

#include "events/plan.hpp"
#include "output/output.hpp"
#include "trace/binary_cache.hpp"
#include "trace/probes.hpp"

namespace uprobectl::trace {

// Returns a point for each probe. `capture`: of the run.
std::vector<events::CapturePoint> make_capture_points(std::span<const Probe> probes,
                                                      const events::CaptureSpec& capture,
                                                      BinaryCache& binaries);

// Finds at which points the function has no frame yet: frame pointers miss the caller there, and
// the return address is still where the call has put it. Sets has_return_address and
// walk_finds_caller.
void find_return_addresses(std::span<events::CapturePoint> points,
                           const events::CaptureSpec& capture, BinaryCache& binaries);

// Warns of probes at which --caller finds nothing. `rules`: see ResolvedProbes::exit_rules.
void warn_of_unknown_callers(std::span<const events::CapturePoint> points,
                             const events::CaptureSpec& capture, std::span<const Probe> probes,
                             std::span<const exit_rule> rules, output::Output& output);

// Sets what to capture of known functions. Finds the thread pointer if that needs it.
void add_known_calls(std::span<events::CapturePoint> points, const events::CaptureSpec& capture,
                     BinaryCache& binaries, events::KernelLayouts& layouts, output::Output& output);

// Moves probes from the first instruction of their functions past the prologue, if parameters can
// be read only there. If all functions have a variable of a name in CaptureSpec::groups, the name
// means this variable from then on. Sets ResolvedProbes::types.
void move_after_prologues(events::CaptureSpec& capture, BinaryCache& binaries,
                          ResolvedProbes& resolved, output::Output& output);

} // namespace uprobectl::trace
