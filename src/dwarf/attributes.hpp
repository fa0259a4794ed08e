// SPDX-License-Identifier: Apache-2.0
// Attributes of entries, read as compilers write them. Only this module includes this header.
#pragma once

#include "dwarf/context.hpp"

#include <span>

namespace uprobectl::dwarf {

// Returns a constant; nullopt if the entry itself has none. DW_FORM_data1 to data8 do not say
// whether the number is signed (DWARF 5, 7.5.5): gcc, gdb and elfutils extend them with zeros.
inline std::optional<std::int64_t> constant(const Die& die, Attribute attribute) {
  const auto value = die.find(attribute);
  if (!value) return std::nullopt;
  if (const auto number = value->getAsUnsignedConstant()) return static_cast<std::int64_t>(*number);
  return value->getAsSignedConstant();
}

// Returns a constant; nullopt if it is negative.
inline std::optional<std::uint64_t> unsigned_constant(const Die& die, Attribute attribute) {
  const auto number = constant(die, attribute);
  if (!number || *number < 0) return std::nullopt;
  return static_cast<std::uint64_t>(*number);
}

// Whether the entry has the flag, or a number other than zero.
inline bool is_set(const Die& die, Attribute attribute) {
  const auto value = die.find(attribute);
  return value && value->getRawUValue() != 0;
}

// Returns the DW_LANG_* of the entry's unit.
inline std::optional<std::uint64_t> language_of(const Die& die) {
  return unsigned_constant(die.getDwarfUnit()->getUnitDIE(), llvm::dwarf::DW_AT_language);
}

// Returns the expression of an attribute; empty if it has none.
inline Bytes expression(const Die& die, Attribute attribute) {
  const auto value = die.find(attribute);
  const auto block = value ? value->getAsBlock() : std::nullopt;
  return block ? std::as_bytes(std::span(block->data(), block->size())) : Bytes();
}

// Returns the lower bound of a dimension, or that of the language (DWARF 5, 7.12).
inline std::optional<std::int64_t> first_index(const Die& range) {
  if (range.find(llvm::dwarf::DW_AT_lower_bound))
    return constant(range, llvm::dwarf::DW_AT_lower_bound);
  return llvm::dwarf::LanguageLowerBound(static_cast<llvm::dwarf::SourceLanguage>(
      language_of(range).value_or(llvm::dwarf::DW_LANG_C)));
}

// Whether the first index of an array selects neighbours (DWARF 5, 5.5).
inline bool is_column_major(const Die& array) {
  if (const auto ordering = unsigned_constant(array, llvm::dwarf::DW_AT_ordering))
    return *ordering == llvm::dwarf::DW_ORD_col_major;
  return llvm::dwarf::isFortran(static_cast<llvm::dwarf::SourceLanguage>(
      language_of(array).value_or(llvm::dwarf::DW_LANG_C)));
}

// Returns the ranges of addresses of the entry's code, not sorted, without those that the linker
// has removed; empty if they are damaged.
inline llvm::DWARFAddressRangesVector address_ranges(const Context& context, const Die& die) {
  auto ranges = die.getAddressRanges();
  if (!ranges) {
    llvm::consumeError(ranges.takeError());
    return {};
  }
  std::erase_if(
      *ranges, [&](const llvm::DWARFAddressRange& range) { return !context.is_code(range.LowPC); });
  return std::move(*ranges);
}

// Whether a function has code in the image, or none at all, as an abstract instance.
inline bool is_live_function(const Context& context, const Die& function) {
  return !function.find({llvm::dwarf::DW_AT_low_pc, llvm::dwarf::DW_AT_ranges}) ||
         !address_ranges(context, function).empty();
}

// Returns DW_AT_entry_pc: an address, or an offset from the start of the entry's code (DWARF 5,
// 2.18).
inline std::optional<std::uint64_t> entry_pc(const Die& die,
                                             const llvm::DWARFAddressRangesVector& ranges) {
  const auto value = die.find(llvm::dwarf::DW_AT_entry_pc);
  if (!value) return std::nullopt;
  if (const auto address = value->getAsAddress()) return address;
  const auto offset = unsigned_constant(die, llvm::dwarf::DW_AT_entry_pc);
  auto base = llvm::dwarf::toAddress(die.find(llvm::dwarf::DW_AT_low_pc));
  if (!base && !ranges.empty()) base = ranges.front().LowPC;
  if (!offset || !base) return std::nullopt;
  return *base + *offset;
}

// Returns the address of the first instruction of a function or inlined copy: DW_AT_entry_pc; for a
// function in several pieces its symbol's address, because a cold piece may come first; else the
// start of its first range.
inline std::optional<std::uint64_t> entry_address(Context& context, const Die& die,
                                                  const llvm::DWARFAddressRangesVector& ranges) {
  if (ranges.empty()) return std::nullopt;
  if (const auto entry = entry_pc(die, ranges)) return entry;
  if (ranges.size() > 1 && die.isSubprogramDIE()) {
    std::vector<std::uint64_t> begins;
    for (const llvm::DWARFAddressRange& range : ranges) begins.push_back(range.LowPC);
    if (const auto entry = context.entry_by_symbol(die, begins)) return entry;
  }
  return ranges.front().LowPC;
}

// Reads the ranges of many entries, which may share one long list in damaged files.
class RangeReader {
public:
  explicit RangeReader(Context& context) : context_(context) {}

  // Whether the entries so far had too many ranges.
  bool is_full() const { return is_full_; }
  // Returns address_ranges(). Returns an empty list, with a warning, if there are too many.
  llvm::DWARFAddressRangesVector of(const Die& die) {
    if (is_full_) return {};
    llvm::DWARFAddressRangesVector ranges = address_ranges(context_, die);
    is_full_ = ranges.size() > left_;
    if (is_full_) {
      context_.warn("there are too many ranges of addresses: some functions are not read");
      return {};
    }
    left_ -= ranges.size();
    return ranges;
  }
  std::optional<std::uint64_t> entry_of(const Die& die) {
    return entry_address(context_, die, of(die));
  }

private:
  Context& context_;
  std::size_t left_ = std::size_t{1} << 23; // the largest units have some hundred thousand
  bool is_full_ = false;
};

} // namespace uprobectl::dwarf
