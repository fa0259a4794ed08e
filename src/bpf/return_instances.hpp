// Where the kernel keeps the return addresses that its return probes have replaced.
#pragma once

#include "bpf/record.h"

#include <optional>

struct btf;

namespace uprobectl {

// Nothing where a structure or a member is missing.
std::optional<return_instance_layout> read_return_instances(const btf* kernel_types);
std::optional<nesting_layout> read_nesting(const btf* kernel_types);

} // namespace uprobectl
