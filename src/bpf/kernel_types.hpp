// SPDX-License-Identifier: Apache-2.0
// Finds the offsets of kernel structure members that the built-in program reads, in the kernel's
// BTF.
#pragma once

#include "bpf/record.h"

#include <memory>
#include <optional>

struct btf;

namespace uprobectl::bpf {

// Linux commit 341dfcf8d78e ("btf: expose BTF info through sysfs") in v5.4.
inline constexpr const char* kernel_types_path = "/sys/kernel/btf/vmlinux";

struct BtfDeleter {
  void operator()(btf* types) const;
};
using OwnedBtf = std::unique_ptr<btf, BtfDeleter>; // null if libbpf could not read them

// Where the kernel stores the return addresses that uretprobes replaced, the number of pending
// uretprobes, the name of a process, the thread pointer of user space, and the state of a task.
// Nullopt if a structure or a member is missing.
std::optional<return_instance_layout> read_return_instance_layout(const btf* kernel_types);
std::optional<nesting_layout> read_nesting_layout(const btf* kernel_types);
std::optional<process_name_layout> read_process_name_layout(const btf* kernel_types);
std::optional<thread_layout> read_thread_layout(const btf* kernel_types);
std::optional<task_state_layout> read_task_state_layout(const btf* kernel_types);
// Where it stores the ids of a task in each pid namespace; sets no namespace.
std::optional<id_namespace> read_id_layout(const btf* kernel_types);

// The layouts of the running kernel. Nullopt also if it has no BTF, or if programs may not read its
// memory. Takes some 10 ms.
std::optional<return_instance_layout> find_return_instance_layout();
std::optional<nesting_layout> find_nesting_layout();
std::optional<process_name_layout> find_process_name_layout();
std::optional<thread_layout> find_thread_layout();
std::optional<task_state_layout> find_task_state_layout();
std::optional<id_namespace> find_id_layout();

// Whether a structure of the running kernel has the member. Nullopt if the kernel has no BTF.
std::optional<bool> kernel_structure_has(const char* structure, std::string_view member);

} // namespace uprobectl::bpf
