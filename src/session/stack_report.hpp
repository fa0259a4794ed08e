// What is said of a run's stacks at its end.
#pragma once

#include "session/hit_stacks.hpp"

namespace uprobectl {

// Those that are not whole, with the option that would help.
void report_stacks(const StackTotals& totals, const AttachRequest& request,
                   const Reporter& reporter);

// Hits that the kernel has counted by stack but whose stack it could not keep; nothing where there
// are none.
void report_without_stack(std::uint64_t hits, const Reporter& reporter);

// "10s, 4711 stacks, 2 of them cut off": what stands below a flame graph's title. Without totals
// the stacks were counted by the kernel.
std::string picture_subtitle(std::chrono::nanoseconds duration, const StackTotals* totals);

} // namespace uprobectl
