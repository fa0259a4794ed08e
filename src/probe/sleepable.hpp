// SPDX-License-Identifier: Apache-2.0
// Tests whether sleepable BPF programs run at probes of this kernel, by running one.
#pragma once

#include "probe/probe.hpp"

namespace uprobectl {

// Forks a child that probes a function of this program, in itself only, and calls it. The BPF
// program must have read memory that was not resident. A child that does not answer in time is
// killed and not waited for. Takes as long as attaching and detaching one probe.
bool sleepable_programs_run(Mechanism mechanism);

} // namespace uprobectl
