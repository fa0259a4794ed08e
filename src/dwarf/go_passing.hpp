// SPDX-License-Identifier: Apache-2.0
// Where functions of Go return their results: Go's register ABI (src/cmd/compile/abi-internal.md of
// Go 1.17 and later, "Function call argument and result passing").
#pragma once

#include "dwarf/location.hpp"
#include "dwarf/types.hpp"

namespace uprobectl::dwarf {

// Locates the results at the return, as one value that has them at their offsets, which ascend.
// Results on the stack are not located.
Location locate_go_results(const elf::Machine& machine, std::span<const Member> results);

} // namespace uprobectl::dwarf
