// SPDX-License-Identifier: Apache-2.0
// Reads how descriptors lead to the elements of arrays.
#include "dwarf/attributes.hpp"
#include "dwarf/object_expressions.hpp"
#include "dwarf/type_table.hpp"

#include <algorithm>

namespace uprobectl::dwarf {

namespace {

using namespace llvm::dwarf;

// Returns a number that is a constant, or that the object has whose type this is.
std::optional<ObjectNumber> number_of(const Die& die, Attribute attribute, ByteOrder order) {
  if (const auto number = constant(die, attribute)) return ObjectNumber{.constant = *number};
  const Bytes bytes = expression(die, attribute);
  return bytes.empty() ? std::nullopt : object_number(bytes, order);
}

// Returns the sum of a dimension's upper bound + 1 - its lower bound, or its DW_AT_count.
std::optional<ObjectNumber> count_of(const Die& range, ByteOrder order) {
  if (range.find(DW_AT_count)) return number_of(range, DW_AT_count, order);
  auto made = number_of(range, DW_AT_upper_bound, order);
  auto lower = number_of(range, DW_AT_lower_bound, order);
  if (const auto first = first_index(range); first && !range.find(DW_AT_lower_bound))
    lower = ObjectNumber{.constant = *first};
  if (!made || !lower || !made->is_sum() || !lower->is_sum()) return std::nullopt;
  made->constant = static_cast<std::int64_t>(static_cast<std::uint64_t>(made->constant) + 1 -
                                             static_cast<std::uint64_t>(lower->constant));
  for (const ObjectNumber::Word& each : lower->words) {
    const auto opposite = std::ranges::find_if(made->words, [&](const ObjectNumber::Word& other) {
      return other.offset == each.offset && other.factor == each.factor;
    });
    if (opposite != made->words.end())
      made->words.erase(opposite);
    else
      made->words.push_back({each.offset, -each.factor});
  }
  return made;
}

// Reads a dimension of an array by descriptor. `stride`: the entry that may have the distance.
std::optional<ArrayDescriptor::Dimension> described_dimension(const Die& range, const Die& stride,
                                                              ByteOrder order) {
  ArrayDescriptor::Dimension made;
  const auto count = count_of(range, order);
  if (!count || !count->is_sum()) return std::nullopt;
  made.constant = count->constant;
  std::size_t added = 0;
  for (const ObjectNumber::Word& each : count->words)
    if (each.factor == 1) {
      made.added = each.offset;
      ++added;
    } else {
      made.subtracted = each.offset;
    }
  if (added != 1 || count->words.size() != added + (made.subtracted ? 1U : 0U)) return std::nullopt;
  if (!stride.find(DW_AT_byte_stride)) return made;
  const auto distance = number_of(stride, DW_AT_byte_stride, order);
  if (!distance || (distance->product.empty() && !distance->is_word())) return std::nullopt;
  made.distance = distance->product;
  if (made.distance.empty()) made.distance = {distance->words.front().offset};
  return made;
}

} // namespace

// An array whose elements a descriptor leads to (DWARF 5, 5.18.1 to 5.18.3).
void TypeTable::read_descriptor(Type& type, const Die& die) {
  const ByteOrder order = context_.layout().machine.order;
  type.kind_ = TypeKind::unknown;
  type.size_ = type.element_count_ = 0;
  if (type.dimensions_ > 2) {
    type.problem_ = "an array of more than two dimensions whose sizes are known at run time only";
    return;
  }
  type.problem_ = "its descriptor is not supported";
  const auto data = number_of(die, DW_AT_data_location, order);
  if (!data || !data->is_word() || !context_.layout().machine.is_64bit) return;
  ArrayDescriptor made{.data = data->words.front().offset};
  for (const auto& [attribute, meaning] : {std::pair{DW_AT_allocated, "not allocated"},
                                           std::pair{DW_AT_associated, "not associated"}}) {
    if (!die.find(attribute)) continue;
    const auto is_there = number_of(die, attribute, order);
    if (!is_there || !is_there->is_not_zero || is_there->words.front().offset != made.data) return;
    made.without_data = meaning;
  }
  if (die.find(DW_AT_bit_stride) || (type.dimensions_ != 1 && die.find(DW_AT_byte_stride))) return;
  for (const Die& range : die.children()) {
    if (range.getTag() != DW_TAG_subrange_type) continue;
    if (range.find(DW_AT_bit_stride)) return;
    auto dimension = described_dimension(range, die.find(DW_AT_byte_stride) ? die : range, order);
    if (!dimension) return;
    made.dimensions.push_back(std::move(*dimension));
  }
  if (made.dimensions.empty()) return;
  if (!is_column_major(die)) std::ranges::reverse(made.dimensions);
  type.kind_ = TypeKind::array;
  type.problem_ = {};
  type.content_->descriptor = std::move(made);
}

} // namespace uprobectl::dwarf
