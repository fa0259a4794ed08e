// SPDX-License-Identifier: Apache-2.0
// The host's side of one run on one device.
#pragma once

#include "host/adb.hpp"
#include "host/host_session.hpp"

namespace uprobectl::host {

// Starts the client with these words, sends the request, and passes on what the run prints until it
// has ended. Signals (Interrupts) are passed on: the first asks the run to end, the second stops
// waiting for it. Returns the exit status of the run. Fails with io if the connection ends before
// the run, or if nothing is heard, or the device does not read the answers, for 10 seconds.
Result<int> run_on_agent(const std::vector<std::string>& client_words,
                         std::string_view program_version, const RunRequest& request,
                         HostFiles& files, AgentStreams& streams);

} // namespace uprobectl::host
