// SPDX-License-Identifier: Apache-2.0
// The built-in programs at the scheduler's tracepoints, which tell when and why threads wait
// (TRACKS_WAITS, TRACKS_CAUSES), and their maps.
#pragma once

#include "bpf/record.h"
#include "uprobectl/util.hpp"

#include <vector>

struct bpf_object; // libbpf

namespace uprobectl::bpf {

// Before loading: which of the programs the run needs, and how many threads they know. `share`: the
// part of the usual memory, as 1/share.
void prepare_scheduler_programs(bpf_object* object, const builtin_settings& run,
                                std::uint32_t share);

// Lets the loaded programs run. Returns their links.
Result<std::vector<UniqueFd>> attach_scheduler_programs(const bpf_object* object,
                                                        const builtin_settings& run);

} // namespace uprobectl::bpf
