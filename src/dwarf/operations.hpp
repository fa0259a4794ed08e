// SPDX-License-Identifier: Apache-2.0
// What readers of DWARF expressions share (DWARF 5, 2.5).
#pragma once

#include <cstdint>
#include <llvm/DebugInfo/DWARF/DWARFExpression.h>
#include <optional>

namespace uprobectl::dwarf {

using Operation = llvm::DWARFExpression::Operation;

// Whether the operation, which begins at this offset, ends before its operands. LLVM reads a
// missing LEB128 number as 0.
inline bool is_damaged(const Operation& operation, std::uint64_t begin) {
  std::uint64_t end = begin + 1;
  for (unsigned i = 0; i < operation.getOperandEndOffsets().size(); ++i) {
    if (operation.getOperandEndOffset(i) <= end) return true;
    end = operation.getOperandEndOffset(i);
  }
  return operation.isError();
}

// Returns the constant that the operation pushes, with its sign; nullopt if it does something else.
inline std::optional<std::uint64_t> pushed_constant(const Operation& operation) {
  using namespace llvm::dwarf;
  const std::uint8_t code = operation.getCode();
  if (code >= DW_OP_lit0 && code <= DW_OP_lit31) return code - DW_OP_lit0;
  switch (code) {
  case DW_OP_const1u:
  case DW_OP_const2u:
  case DW_OP_const4u:
  case DW_OP_const8u:
  case DW_OP_constu:
  case DW_OP_const1s:
  case DW_OP_const2s:
  case DW_OP_const4s:
  case DW_OP_const8s:
  case DW_OP_consts:
    return operation.getNumOperands() > 0 ? operation.getRawOperand(0) : 0;
  default:
    return std::nullopt;
  }
}

} // namespace uprobectl::dwarf
