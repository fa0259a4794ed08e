// SPDX-License-Identifier: Apache-2.0
// A row of the table that call frame information encodes (DWARF 5, 6.4.1): the rules that recover
// the registers of the caller at one address.
#pragma once

#include "unwind/cfi.hpp"
#include "uprobectl/unwind/registers.hpp"

namespace uprobectl::unwind {

// A register rule.
struct Rule {
  enum class Kind : std::uint8_t {
    unspecified, // no rule is given
    undefined,
    same_value,
    offset,         // offset(N): saved at CFA + value
    val_offset,     // val_offset(N): CFA + value; for the CFA itself its register + value
    in_register,    // register(R): in register `value`
    expression,     // expression(E): saved at the result of E, which is at `value` in the section
    val_expression, // val_expression(E): the result of E
  };
  Kind kind = Kind::unspecified;
  std::int32_t value = 0;
};

struct Row {
  Rule cfa;
  std::uint8_t cfa_register = 0;
  std::uint8_t return_register = 0;
  bool signal_frame = false;
  std::array<Rule, Registers::count> rules = {};
};

// The row of the address. corrupt if the instructions up to it are invalid.
Result<Row> row_at(const FrameSection& section, const Cie& cie, const Fde& fde,
                   std::uint64_t address);

// The extent of the expression whose length is stored at `at`.
std::optional<Extent> expression_at(const FrameSection& section, std::int32_t at);

} // namespace uprobectl::unwind
