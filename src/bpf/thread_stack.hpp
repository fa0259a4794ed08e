// SPDX-License-Identifier: Apache-2.0
// Keeps BPF programs of probes off the kernel's private stacks (programs/thread_stack.h).
#pragma once

struct bpf_object;

namespace uprobectl {

// Prepares an opened object of ours for this kernel: replaces its tail calls, which are never
// reached, if programs with functions and tail calls cannot be loaded. Kernels without a BPF JIT
// reject them, and have no private stacks.
void adapt_tail_calls(bpf_object* object);

} // namespace uprobectl
