// SPDX-License-Identifier: Apache-2.0
// Names that a compiler derives from a function's: "f.constprop.0", "f.part.1.cold".
#pragma once

#include <optional>
#include <string_view>

namespace uprobectl {

struct CloneName {
  std::string_view base; // "f"
  bool cold = false;     // a part that is reached by a jump, never called
};

// Nullopt if the name has no such suffix. GCC: constprop, isra, part, cold, lto_priv; LLVM: llvm,
// cold, __uniq. Each with or without a number; several may follow each other.
std::optional<CloneName> clone_name(std::string_view raw);

// Whether the name is a clone whose arguments may differ from the function's: GCC's constprop and
// isra omit some, and part takes its own.
bool has_other_arguments(std::string_view raw);

} // namespace uprobectl
