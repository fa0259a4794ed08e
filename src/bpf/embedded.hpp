// The compiled BPF objects that the build puts into the binary.
#pragma once

#include "uprobectl/base.hpp"

namespace uprobectl {

Bytes builtin_object(); // src/bpf/programs/builtin.bpf.c

} // namespace uprobectl
