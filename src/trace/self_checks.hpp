// SPDX-License-Identifier: Apache-2.0
// Leaves out probes in code that a program compares with its hash (elf/self_check.hpp).
#pragma once

#include "output/output.hpp"
#include "trace/probes.hpp"

namespace uprobectl::trace {

// `programs_may_start`: the kernel writes the probes into programs that start during the run, which
// test their code at their start: skips such probes as skip_probes() does. Processes that run
// already are past this test, and may repeat it: then only warns, once for each file, and also if
// it is not known which code is tested.
void skip_self_checked(ResolvedProbes& resolved, bool programs_may_start, output::Output& output);

} // namespace uprobectl::trace
