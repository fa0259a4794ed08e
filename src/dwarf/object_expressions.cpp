// SPDX-License-Identifier: Apache-2.0
#include "dwarf/object_expressions.hpp"

#include "dwarf/operations.hpp"
#include "elf/elf_types.hpp"
#include "util/arithmetic.hpp"

namespace uprobectl::dwarf {

namespace {

using namespace llvm::dwarf;

constexpr std::size_t max_object_operations = 32; // those of compilers have at most ten

struct ObjectOperation {
  std::uint8_t code = 0; // DW_OP_consts for all constants
  std::int64_t operand = 0;
};

// Returns the operations of an expression; nullopt if it is damaged, or has others than these.
std::optional<std::vector<ObjectOperation>> read_operations(Bytes expression, ByteOrder order) {
  const llvm::DataExtractor data(elf::as_string_ref(expression), order == ByteOrder::little,
                                 sizeof(std::uint64_t));
  std::vector<ObjectOperation> made;
  std::uint64_t begin = 0;
  for (const Operation& each : llvm::DWARFExpression(data, sizeof(std::uint64_t))) {
    if (made.size() >= max_object_operations || is_damaged(each, begin)) return std::nullopt;
    begin = each.getEndOffset();
    if (const auto number = pushed_constant(each)) {
      made.push_back({.code = DW_OP_consts, .operand = static_cast<std::int64_t>(*number)});
      continue;
    }
    switch (each.getCode()) {
    case DW_OP_plus_uconst:
      made.push_back(
          {.code = each.getCode(), .operand = static_cast<std::int64_t>(each.getRawOperand(0))});
      break;
    case DW_OP_push_object_address:
    case DW_OP_dup:
    case DW_OP_deref:
    case DW_OP_plus:
    case DW_OP_minus:
    case DW_OP_mul:
    case DW_OP_ne:
      made.push_back({.code = each.getCode()});
      break;
    default:
      return std::nullopt;
    }
  }
  return made;
}

// A number on the stack, or the address of the object + its constant.
struct ObjectEntry {
  ObjectNumber number;
  bool is_address = false;

  bool is_constant() const { return !is_address && number.is_sum() && number.words.empty(); }
  bool is_word() const { return !is_address && number.is_word(); }
};

// Combines the two upper entries of the stack into the first of them. Returns false if the result
// is not a number that objects have.
bool combine(std::uint8_t code, ObjectEntry& left, const ObjectEntry& right) {
  switch (code) {
  case DW_OP_plus:
  case DW_OP_minus: {
    if (!left.number.is_sum() || !right.number.is_sum()) return false;
    if (right.is_address || (left.is_address && !right.is_constant())) return false;
    const bool negates = code == DW_OP_minus;
    left.number.constant =
        add_wrapping(left.number.constant,
                     negates ? negate_wrapping(right.number.constant) : right.number.constant);
    for (const ObjectNumber::Word& each : right.number.words)
      left.number.words.push_back({each.offset, negates ? -each.factor : each.factor});
    return true;
  }
  case DW_OP_mul:
    if (!left.is_word() || !right.is_word()) return false;
    left.number = {.product = {left.number.words[0].offset, right.number.words[0].offset}};
    return true;
  case DW_OP_ne:
    if (!left.is_word() || !right.is_constant() || right.number.constant != 0) return false;
    left.number.is_not_zero = true;
    return true;
  default:
    return false;
  }
}

} // namespace

std::optional<std::int64_t> vtable_offset(Bytes expression, ByteOrder order) {
  const auto all = read_operations(expression, order);
  if (!all || all->size() != 6) return std::nullopt;
  const auto is = [&](std::size_t index, std::uint8_t code) { return (*all)[index].code == code; };
  if (!is(0, DW_OP_dup) || !is(1, DW_OP_deref) || !is(2, DW_OP_consts) || !is(3, DW_OP_minus) ||
      !is(4, DW_OP_deref) || !is(5, DW_OP_plus))
    return std::nullopt;
  return negate_wrapping((*all)[2].operand);
}

std::optional<ObjectNumber> object_number(Bytes expression, ByteOrder order) {
  const auto all = read_operations(expression, order);
  if (!all) return std::nullopt;
  std::vector<ObjectEntry> stack;
  for (const ObjectOperation& each : *all) {
    switch (each.code) {
    case DW_OP_consts:
      stack.push_back({.number = {.constant = each.operand}});
      break;
    case DW_OP_push_object_address:
      stack.push_back({.number = {}, .is_address = true});
      break;
    case DW_OP_plus_uconst:
      if (stack.empty() || !stack.back().number.is_sum()) return std::nullopt;
      stack.back().number.constant = add_wrapping(stack.back().number.constant, each.operand);
      break;
    case DW_OP_deref:
      if (stack.empty() || !stack.back().is_address || stack.back().number.constant < 0)
        return std::nullopt;
      stack.back() = {
          .number = {.words = {{static_cast<std::uint64_t>(stack.back().number.constant)}}}};
      break;
    default: {
      if (stack.size() < 2) return std::nullopt;
      const ObjectEntry right = std::move(stack.back());
      stack.pop_back();
      if (!combine(each.code, stack.back(), right)) return std::nullopt;
    }
    }
  }
  if (stack.size() != 1 || stack.front().is_address) return std::nullopt;
  return std::move(stack.front().number);
}

} // namespace uprobectl::dwarf
