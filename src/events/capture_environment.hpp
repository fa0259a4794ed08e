// SPDX-License-Identifier: Apache-2.0
// What a capture plan needs to know besides what was asked for: of this kernel, of the mechanism,
// and of the processes that are traced.
#pragma once

#include "bpf/record.h"

namespace uprobectl::events {

// Where the kernel keeps the data that the built-in program reads from it. A layout is zero if it
// is not known, or not needed.
struct KernelLayouts {
  // The return addresses that uretprobes replaced: to unwind copied stacks.
  return_instance_layout return_instances = {};
  nesting_layout nesting = {};           // the number of the thread's pending uretprobes
  process_name_layout process_name = {}; // of the thread group
  thread_layout thread = {};             // the thread pointer
  task_state_layout task_state = {};     // why a thread does not run
};

struct CaptureEnvironment {
  KernelLayouts layouts = {};
  id_namespace ids = {};     // the pid namespace in which the program reports ids
  bool by_uretprobe = false; // returns are probed by uretprobes
  unsigned filters = 0;      // FILTER_… of bpf/record.h
  std::uint32_t user = 0;    // the uid for FILTER_BY_USER
};

} // namespace uprobectl::events
