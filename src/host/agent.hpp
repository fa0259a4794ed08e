// SPDX-License-Identifier: Apache-2.0
// `uprobectl --agent`: runs one command on a device for `uprobectl --adb` on a workstation.
#pragma once

#include "host/run_request.hpp"

#include <functional>

namespace uprobectl::host {

// Runs a command of uprobectl in this process and returns its exit status.
using RunCommand =
    std::function<int(const std::vector<std::string>& arguments, Workstation& workstation)>;

// Reads a request from stdin, runs it in a child process, and sends to stdout what it prints. Ends
// the run when stdin ends, or when no frame has come for 5 seconds. Returns the exit status of the
// run. Must be called before the process has threads.
int run_agent(std::string_view program_version, const RunCommand& run);

} // namespace uprobectl::host
