// Why a probe that was hit has shown nothing.
#pragma once

#include "uprobectl/bpf/builtin.hpp"
#include "uprobectl/events/plan.hpp"

namespace uprobectl {

// One line, without subject: "called 3 times, but --if held for none of them". Empty where it was
// not hit, or hits were shown.
std::string explain_left_out(const ProbeCounts& counts, const Inspection& inspection);

} // namespace uprobectl
