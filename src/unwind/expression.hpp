// DWARF expressions as far as call frame information uses them (DWARF 5, 2.5 and 6.4.2.3).
#pragma once

#include "unwind/memory.hpp"

namespace uprobectl::stacks {

enum class ExpressionFailure : std::uint8_t {
  corrupt,          // or of an operation that has no meaning here
  not_saved,        // reads memory that is not known
  unknown_register, // or a register that is not
};

// What is left on top. `first`: what the evaluation begins with, the CFA for the rule of a
// register.
std::expected<std::uint64_t, ExpressionFailure> evaluate(Bytes expression,
                                                         const Registers& registers,
                                                         const Memory& memory,
                                                         std::optional<std::uint64_t> first);

} // namespace uprobectl::stacks
