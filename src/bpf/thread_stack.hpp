// SPDX-License-Identifier: Apache-2.0
// The kernel's private stacks, which threads of one CPU overwrite for each other if they are in
// uprobe programs (programs/thread_stack.h).
#pragma once

#include "uprobectl/util.hpp"

struct bpf_insn; // NOLINT(readability-identifier-naming): the kernel's
struct bpf_object;

namespace uprobectl::bpf {

// Prepares an opened object of ours for this kernel: replaces its tail calls, which are never
// reached, if programs with functions and tail calls cannot be loaded. Kernels without a BPF JIT
// reject them, and have no private stacks.
void adapt_tail_calls(bpf_object* object);

// Whether this kernel gives kprobe programs private stacks. Determined by trying.
bool kernel_has_private_stacks();

// Whether such a kernel gives one to a kprobe program: it uses enough stack, and has no tail call.
// `code`: with its functions. False for code that the verifier rejects.
bool wants_private_stack(std::span<const bpf_insn> code);

} // namespace uprobectl::bpf
