// SPDX-License-Identifier: Apache-2.0
#include "dwarf/scopes.hpp"

#include "dwarf/positions.hpp"

#include <algorithm>

namespace uprobectl::dwarf {

std::vector<Scopes> scopes_at(Context& context, llvm::DWARFUnit& unit,
                              std::span<const std::uint64_t> addresses) {
  std::vector<Scopes> scopes;
  for (const std::uint64_t address : addresses) {
    const Die innermost = context.innermost_function_at(unit, {address});
    if (!scopes.empty() && innermost && !scopes.back().empty() &&
        scopes.back().back() == innermost) {
      scopes.push_back(scopes.back());
      continue;
    }
    scopes.push_back(inline_chain(innermost));
    std::ranges::reverse(scopes.back());
  }
  return scopes;
}

} // namespace uprobectl::dwarf
