// SPDX-License-Identifier: Apache-2.0
// Expressions of types that are evaluated on an object (DWARF 5, 2.5): where a virtual base class
// is in it, and what a descriptor says about its array.
#pragma once

#include "dwarf/types.hpp"

namespace uprobectl::dwarf {

// Returns VirtualBase::vtable_offset of a DW_AT_data_member_location: DW_OP_dup, deref, a constant,
// minus, deref, plus. nullopt for all others.
std::optional<std::int64_t> vtable_offset(Bytes expression, ByteOrder order);

// A number that an object has: a constant and words of it, each times its factor; or the product of
// words.
struct ObjectNumber {
  struct Word {
    std::uint64_t offset = 0; // in the object, bytes
    std::int64_t factor = 1;  // 1 or -1
  };
  std::int64_t constant = 0;
  std::vector<Word> words = {};
  std::vector<std::uint64_t> product = {}; // offsets of the words, at least two; empty: the sum
  bool is_not_zero = false;                // whether the number differs from 0, instead of it

  bool is_sum() const { return product.empty() && !is_not_zero; }
  // Whether it is one word and nothing else.
  bool is_word() const {
    return is_sum() && constant == 0 && words.size() == 1 && words.front().factor == 1;
  }
};

// Evaluates an expression that begins with an empty stack (DW_OP_push_object_address). nullopt if
// its result is not such a number.
std::optional<ObjectNumber> object_number(Bytes expression, ByteOrder order);

} // namespace uprobectl::dwarf
