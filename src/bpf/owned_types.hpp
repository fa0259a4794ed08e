// BTF that is freed by who has it.
#pragma once

#include <bpf/btf.h>
#include <memory>

namespace uprobectl {

struct FreeTypes {
  void operator()(btf* types) const { btf__free(types); }
};
using OwnedTypes = std::unique_ptr<btf, FreeTypes>; // null where libbpf had none

} // namespace uprobectl
