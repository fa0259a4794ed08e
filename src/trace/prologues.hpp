// SPDX-License-Identifier: Apache-2.0
// Parameters that can be read after the prologue of a function but not at its first instruction:
// code that is not optimized has all of them on its stack frame there.
#pragma once

#include "dwarf/functions.hpp"
#include "plans/attach_plan.hpp"
#include "resolve/code_index.hpp"
#include "unwind/unwind_data.hpp"
#include "uprobectl/resolve.hpp"

#include <expected>

namespace uprobectl::trace {

// An instruction after a prologue that each call of the function passes once.
struct PrologueEnd {
  std::uint64_t size = 0;       // of the prologue, bytes: from the first instruction to this one
  insn::ProbeEffect effect;     // of a probe there: safe
  dwarf::FunctionInfo function; // with the locations there, and no variables but the parameters
};

// Whether some bytes of the parameter cannot be read.
bool lacks_bytes(const dwarf::Variable& parameter);

// Describes the end of the prologue of the function at the point, by debug information. Returns
// nullopt if all parameters can be read at the entry, or the reason why its end cannot be used.
std::expected<std::optional<plans::PlannedPrologue>, std::string>
describe_prologue(const dwarf::DebugInfo& debug, unwind::UnwindData* frames,
                  const resolve::ProbePoint& point, const dwarf::FunctionInfo& at_entry);
// The function after the prologue, without variables that are not parameters.
dwarf::FunctionInfo after_prologue(dwarf::FunctionInfo at_entry,
                                   const plans::PlannedPrologue& prologue);
// Returns the end of the prologue if the code is as described, and more parameters can be read
// there.
std::expected<std::optional<PrologueEnd>, std::string>
check_prologue(resolve::CodeIndex& index, unwind::UnwindData* frames,
               const resolve::ProbePoint& point, const dwarf::FunctionInfo& at_entry,
               const plans::PlannedPrologue& prologue);

// Does both: looks for more readable parameters after the prologue of the function at the point.
// `at_entry` describes it at its first instruction. Returns nullopt if nothing can be gained there,
// or the reason why that address cannot be used. `frames`: of the image of `index`; null if it has
// no call frame information.
std::expected<std::optional<PrologueEnd>, std::string>
find_prologue_end(resolve::CodeIndex& index, const dwarf::DebugInfo& debug,
                  unwind::UnwindData* frames, const resolve::ProbePoint& point,
                  const dwarf::FunctionInfo& at_entry);

} // namespace uprobectl::trace
