// BTF that is freed by who has it.
#pragma once

#include <bpf/btf.h>
#include <memory>

namespace uprobectl {

// Where the kernel shows its own: Linux commit 341dfcf8d78e ("btf: expose BTF info through sysfs")
// in v5.4.
inline constexpr const char* kernel_types_path = "/sys/kernel/btf/vmlinux";

struct FreeTypes {
  void operator()(btf* types) const { btf__free(types); }
};
using OwnedTypes = std::unique_ptr<btf, FreeTypes>; // null where libbpf had none

} // namespace uprobectl
