// SPDX-License-Identifier: Apache-2.0
// Functions that were not called because another library of the process defines one of that name,
// which the dynamic linker has chosen: malloc of libc beside jemalloc's.
#pragma once

#include "trace/binary_cache.hpp"
#include "trace/probes.hpp"

#include <span>
#include <sys/types.h>

namespace uprobectl::trace {

// Sets UnhitFacts::other_definition of the probes. `pids`: the processes that are searched; those
// that have ended, and all beyond the first few, are not.
void find_other_definitions(std::span<Probe* const> probes, std::span<const pid_t> pids,
                            BinaryCache& binaries);

} // namespace uprobectl::trace
