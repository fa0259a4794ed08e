// SPDX-License-Identifier: Apache-2.0
// The compiled BPF objects that the build embeds in the binary.
#pragma once

#include "uprobectl/util.hpp"

namespace uprobectl::bpf {

// src/bpf/programs/builtin.bpf.c: for each buffer, with the attach cookie, or with the probe's
// number as a constant of each copy. The sleepable one has a ring buffer and cookies.
Bytes builtin_ring_cookie();
Bytes builtin_ring_sleepable();
Bytes builtin_ring_number();
Bytes builtin_perf_cookie();
Bytes builtin_perf_number();

// src/bpf/programs/processes.bpf.c
Bytes processes_object();

} // namespace uprobectl::bpf
