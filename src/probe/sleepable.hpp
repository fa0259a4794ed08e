// SPDX-License-Identifier: Apache-2.0
// Tests whether sleepable BPF programs run at probes of this kernel, by running one that reads
// memory that is not resident.
#pragma once

#include "probe/self_probe.hpp"

namespace uprobectl::probe {

// Starts a child that probes itself. It answers 1 if the program has read the memory, then
// detaches.
AskedChild start_sleepable_test(Mechanism mechanism);

// Runs the test and returns its result. Takes as long as attaching and detaching one probe.
bool sleepable_programs_run(Mechanism mechanism);

} // namespace uprobectl::probe
