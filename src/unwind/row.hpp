// A row of the table that call frame information stands for (DWARF 5, 6.4.1): where at one address
// the registers of the caller are.
#pragma once

#include "unwind/frame_section.hpp"
#include "uprobectl/unwind/registers.hpp"

namespace uprobectl::stacks {

struct Rule {
  enum class Kind : std::uint8_t {
    unspecified,
    undefined,
    same,
    saved,            // at CFA + value
    offset,           // is CFA + value; of the CFA itself: its register + value
    other,            // in register `value`
    saved_expression, // at what the expression gives, which lies at `value` of the section
    expression,       // is what the expression gives
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

// What holds at the address. corrupt where the instructions cannot be followed so far.
Result<Row> row_at(const FrameSection& section, const Cie& cie, const Fde& fde,
                   std::uint64_t address);

// Where the expression lies whose length stands at `at`.
std::optional<Extent> expression_at(const FrameSection& section, std::int32_t at);

} // namespace uprobectl::stacks
