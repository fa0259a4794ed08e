#pragma once

namespace uprobectl {

// Perf events take two descriptors a probe, copies of a program two more: the usual soft limit of
// 1024 ends at a few hundred probes. Raised as far as this user may; a refusal shows as EMFILE
// where it matters.
void raise_descriptor_limit();

} // namespace uprobectl
