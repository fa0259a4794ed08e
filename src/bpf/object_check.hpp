// Whether a BPF object can be handed to libbpf, which believes what an object says of its own types
// and crashes on some that are damaged.
#pragma once

#include "uprobectl/util.hpp"

namespace uprobectl {

// Sizes and indexes of .BTF and .BTF.ext, as the kernel would check them, and of the symbols,
// relocations and section headers that libbpf follows. `corrupt` names the first fault. Files that
// are not 64-bit little-endian ELF objects of BPF are left to libbpf, which refuses them.
Result<void> check_bpf_object(Bytes file);

} // namespace uprobectl
