// SPDX-License-Identifier: Apache-2.0
#include "dwarf/object_expressions.hpp"

#include "elf/dwarf_cursor.hpp"

#include <llvm/BinaryFormat/Dwarf.h>

namespace uprobectl::dwarf {

namespace {

using namespace llvm::dwarf;

constexpr std::size_t max_object_operations = 32; // those of compilers have at most ten

struct ObjectOperation {
  std::uint8_t code = 0; // DW_OP_consts for all constants
  std::int64_t operand = 0;
};

// Returns the constant that an operation pushes; nullopt if it does something else.
std::optional<std::int64_t> read_constant(std::uint8_t code, elf::DwarfCursor& cursor) {
  const auto with_sign = [&](unsigned size) {
    const unsigned unused = 64 - 8 * size;
    return static_cast<std::int64_t>(cursor.number(size) << unused) >> unused;
  };
  if (code >= DW_OP_lit0 && code <= DW_OP_lit31) return code - DW_OP_lit0;
  switch (code) {
  case DW_OP_const1u:
    return static_cast<std::int64_t>(cursor.number(1));
  case DW_OP_const2u:
    return static_cast<std::int64_t>(cursor.number(2));
  case DW_OP_const4u:
    return static_cast<std::int64_t>(cursor.number(4));
  case DW_OP_const8u:
  case DW_OP_const8s:
    return static_cast<std::int64_t>(cursor.number(8));
  case DW_OP_const1s:
    return with_sign(1);
  case DW_OP_const2s:
    return with_sign(2);
  case DW_OP_const4s:
    return with_sign(4);
  case DW_OP_constu:
    return static_cast<std::int64_t>(cursor.unsigned_leb());
  case DW_OP_consts:
    return cursor.signed_leb();
  default:
    return std::nullopt;
  }
}

// Returns the operations of an expression; nullopt if it is damaged, or has others than these.
std::optional<std::vector<ObjectOperation>> read_operations(Bytes expression, ByteOrder order) {
  std::vector<ObjectOperation> made;
  elf::DwarfCursor cursor(expression, order);
  while (!cursor.at_end()) {
    if (made.size() >= max_object_operations) return std::nullopt;
    const auto code = static_cast<std::uint8_t>(cursor.number(1));
    if (const auto constant = read_constant(code, cursor)) {
      made.push_back({.code = DW_OP_consts, .operand = *constant});
      continue;
    }
    switch (code) {
    case DW_OP_plus_uconst:
      made.push_back({.code = code, .operand = static_cast<std::int64_t>(cursor.unsigned_leb())});
      break;
    case DW_OP_push_object_address:
    case DW_OP_dup:
    case DW_OP_deref:
    case DW_OP_plus:
    case DW_OP_minus:
    case DW_OP_mul:
    case DW_OP_ne:
      made.push_back({.code = code});
      break;
    default:
      return std::nullopt;
    }
  }
  if (cursor.failed()) return std::nullopt;
  return made;
}

std::int64_t wrapped_sum(std::int64_t a, std::int64_t b) { // modulo 2^64
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

std::int64_t wrapped_negative(std::int64_t number) { // modulo 2^64
  return static_cast<std::int64_t>(0 - static_cast<std::uint64_t>(number));
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
        wrapped_sum(left.number.constant,
                    negates ? wrapped_negative(right.number.constant) : right.number.constant);
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
  return wrapped_negative((*all)[2].operand);
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
      stack.back().number.constant = wrapped_sum(stack.back().number.constant, each.operand);
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
