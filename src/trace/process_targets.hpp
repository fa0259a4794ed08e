// SPDX-License-Identifier: Apache-2.0
// TARGETs in the sections of users' programs that mean files of the probed process: its executable,
// and libraries by names without a suffix.
#pragma once

#include "trace/probes.hpp"

#include <sys/types.h>

namespace uprobectl::trace {

// Replaces "/proc/self/exe" by the executables of the processes or of the command, and "libc",
// "libssl" and the like by the library that the processes map or the command needs, else by the
// installed one. libpthread, libdl and librt are part of libc if nothing maps or needs them and
// libc defines what they did (glibc 2.34). Returns one request for each file. Fails with usage if
// "/proc/self/exe" means no process, with not_found if the command does not exist.
Result<std::vector<ProbeRequest>> find_process_targets(std::vector<ProbeRequest> requests,
                                                       std::span<const pid_t> pids,
                                                       std::span<const std::string> command);

} // namespace uprobectl::trace
