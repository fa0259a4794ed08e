// Names that a compiler derives from a function's: "f.constprop.0", "f.part.1.cold".
#pragma once

#include <optional>
#include <string_view>

namespace uprobectl {

struct CloneName {
  std::string_view base; // "f"
  bool cold = false;     // a part that is jumped into, never called
};

// Nothing if the name has no such ending. GCC: constprop, isra, part, cold, lto_priv; LLVM: llvm,
// cold, __uniq. Each with or without a number; several may follow each other.
std::optional<CloneName> clone_name(std::string_view raw);

// Whether it is a clone that need not take the arguments of its function in their order: GCC's
// constprop and isra leave some out, and part is called with what it needs.
bool has_other_arguments(std::string_view raw);

} // namespace uprobectl
