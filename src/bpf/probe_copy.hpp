// Copies of a program, one for each probe, where no cookie tells a program which probe it runs for.
#pragma once

#include "uprobectl/util.hpp"

struct bpf_program;

namespace uprobectl {

// A copy of a loaded program that takes `cookie` for its own: the instructions that libbpf has
// given to the kernel, with another constant (src/bpf/record.h). It uses the same maps. Plain. An
// errno where the kernel refuses.
std::expected<UniqueFd, int> load_copy_with_cookie(const bpf_program* program,
                                                   std::uint64_t cookie);

} // namespace uprobectl
