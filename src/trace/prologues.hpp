// SPDX-License-Identifier: Apache-2.0
// Parameters that can be read behind the prologue of a function but not at its first instruction:
// code that is not optimized has all of them on its stack frame there.
#pragma once

#include "dwarf/functions.hpp"
#include "unwind/unwind_data.hpp"
#include "uprobectl/resolve.hpp"

#include <expected>

namespace uprobectl {

// A place behind a prologue that each call of the function passes once.
struct PrologueEnd {
  std::uint64_t size = 0;       // of the prologue, bytes: from the first instruction to the place
  ProbeEffect effect;           // of a probe there: safe
  dwarf::FunctionInfo function; // with the locations there, and no variables but the parameters
};

// Whether some bytes of the parameter cannot be read.
bool lacks_bytes(const dwarf::Variable& parameter);

// Looks for more readable parameters behind the prologue of the function at the point. `at_entry`
// describes it at its first instruction. Returns nullopt if nothing can be gained there, or the
// reason why the place cannot be used. `frames`: of the image; null if it has no call frame
// information.
std::expected<std::optional<PrologueEnd>, std::string>
find_prologue_end(const elf::Image& image, const dwarf::DebugInfo& debug,
                  unwind::UnwindData* frames, const ProbePoint& point,
                  const dwarf::FunctionInfo& at_entry);

} // namespace uprobectl
