// SPDX-License-Identifier: Apache-2.0
// Probes in libraries that processes have in anonymous memory only (process/anonymous_copy.hpp).
#pragma once

#include "output/output.hpp"
#include "trace/binary_cache.hpp"
#include "trace/probes.hpp"

namespace uprobectl::trace {

// Warns once for each probed file that no process maps, but a process has a copy of.
void warn_about_anonymous_copies(std::span<const Probe> probes, std::span<const pid_t> pids,
                                 BinaryCache& binaries, output::Output& output);

// Sets Probe::hidden_reason of unhit probes in such files.
void explain_anonymous_copies(std::span<Probe> probes, std::span<const pid_t> pids,
                              BinaryCache& binaries);

} // namespace uprobectl::trace
