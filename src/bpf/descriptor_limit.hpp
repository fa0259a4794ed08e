#pragma once

#include "uprobectl/util.hpp"

namespace uprobectl {

// Perf events take two descriptors a probe, copies of a program two more: the usual soft limit of
// 1024 ends at a few hundred probes. Raised as far as this user may; a refusal shows as EMFILE
// where it matters.
void raise_descriptor_limit();

// Fails unless as many descriptors are free as loading the built-in program takes. libbpf and the
// feature tests mistake a lack of them for a kernel that lacks features.
Result<void> check_free_descriptors();

} // namespace uprobectl
