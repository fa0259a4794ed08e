// SPDX-License-Identifier: Apache-2.0
// The kernel's own types (BTF), and the offsets of members that the built-in program reads.
#pragma once

#include "bpf/record.h"

#include <bpf/btf.h>
#include <memory>
#include <optional>

namespace uprobectl {

// Linux commit 341dfcf8d78e ("btf: expose BTF info through sysfs") in v5.4.
inline constexpr const char* kernel_types_path = "/sys/kernel/btf/vmlinux";

struct BtfDeleter {
  void operator()(btf* types) const { btf__free(types); }
};
using OwnedBtf = std::unique_ptr<btf, BtfDeleter>; // null if libbpf could not read them

// Where the kernel stores the return addresses that uretprobes replaced, and the number of pending
// uretprobes. Nullopt if a structure or a member is missing.
std::optional<return_instance_layout> read_return_instance_layout(const btf* kernel_types);
std::optional<nesting_layout> read_nesting_layout(const btf* kernel_types);

} // namespace uprobectl
