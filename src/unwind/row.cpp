// SPDX-License-Identifier: Apache-2.0
// Call frame instructions (DWARF 5, 6.4.2 and 7.24; GNU and AArch64 ones: LSB core 5.0, 10.5.2, and
// DWARF for the Arm 64-bit Architecture, 4.4).
#include "unwind/cfi.hpp"

#include <fmt/format.h>

namespace uprobectl::unwind {

namespace {

using elf::DwarfCursor;

// Compilers do not nest DW_CFA_remember_state; each state takes about 270 bytes.
constexpr std::size_t max_remembered = 32;
// Bytes; compilers write about a hundred.
constexpr std::uint64_t max_instructions = std::uint64_t{1} << 20;

class Interpreter {
public:
  Interpreter(const FrameSection& section, const Cie& cie, const Fde& fde, std::uint64_t address)
      : section_(section), cie_(cie), begin_(fde.begin), address_(address),
        cursor_(section.bytes, ByteOrder::little) {
    row_.return_register = static_cast<std::uint8_t>(cie.return_register);
    row_.signal_frame = cie.signal_frame;
  }

  // Returns false if the instructions are invalid. `initial`: those of the CIE, which apply to
  // every address.
  bool run(const Extent& instructions, bool initial) {
    if (instructions.end - instructions.begin > max_instructions) return false;
    cursor_ = DwarfCursor(section_.bytes.first(instructions.end), ByteOrder::little);
    cursor_.seek(instructions.begin);
    location_ = begin_;
    while (!cursor_.at_end() && (initial || location_ <= address_))
      if (!execute_next() || cursor_.failed()) return false;
    if (initial) initial_ = row_;
    return true;
  }

  const Row& row() const { return row_; }

private:
  bool execute_next() {
    const auto byte = static_cast<unsigned>(cursor_.number(1));
    const unsigned low = byte & 0x3fU;
    switch (byte >> 6) {
    case 1: // DW_CFA_advance_loc
      return advance(low);
    case 2: // DW_CFA_offset
      return set(low, Rule::Kind::offset, factored(cursor_.unsigned_leb()));
    case 3: // DW_CFA_restore
      return restore(low);
    default:
      return extended(byte);
    }
  }

  bool extended(unsigned code) {
    switch (code) {
    case 0x00: // nop
      return true;
    case 0x01: { // set_loc
      const auto to = read_pointer(cursor_, cie_.pointer_encoding, section_.address.value,
                                   section_.address.value);
      if (to) location_ = *to;
      return to.has_value();
    }
    case 0x02: // advance_loc1, 2, 4
      return advance(cursor_.number(1));
    case 0x03:
      return advance(cursor_.number(2));
    case 0x04:
      return advance(cursor_.number(4));
    case 0x0a: // remember_state
      if (remembered_.size() == max_remembered) return false;
      remembered_.push_back(row_);
      return true;
    case 0x0b: // restore_state: restores the CFA too
      if (remembered_.empty()) return false;
      row_ = remembered_.back();
      remembered_.pop_back();
      return true;
    case 0x2c: // AARCH64_negate_ra_state_with_pc
    case 0x2d: // AARCH64_negate_ra_state: ignored, every return address is stripped
      return true;
    case 0x2e: // GNU_args_size
      cursor_.skip_leb();
      return true;
    default:
      return code >= 0x0c && code <= 0x0f ? define_cfa(code) : signed_cfa(code) || rule(code);
    }
  }

  bool define_cfa(unsigned code) {
    switch (code) {
    case 0x0c: { // def_cfa
      const std::uint64_t number = cursor_.unsigned_leb();
      return set_cfa(number, static_cast<std::int64_t>(cursor_.unsigned_leb()));
    }
    case 0x0d: // def_cfa_register
      return has_cfa_register() && set_cfa(cursor_.unsigned_leb(), row_.cfa.value);
    case 0x0e: // def_cfa_offset
      return has_cfa_register() &&
             set_cfa(row_.cfa.base_register, static_cast<std::int64_t>(cursor_.unsigned_leb()));
    default: { // def_cfa_expression
      const std::uint64_t at = cursor_.at();
      cursor_.skip(cursor_.unsigned_leb());
      row_.cfa = {CfaRule::Kind::expression, 0, static_cast<std::int32_t>(at)};
      return fits(static_cast<std::int64_t>(at));
    }
    }
  }

  bool signed_cfa(unsigned code) {
    if (code == 0x12) { // def_cfa_sf
      const std::uint64_t number = cursor_.unsigned_leb();
      return set_cfa(number, signed_factored());
    }
    if (code == 0x13 && has_cfa_register()) // def_cfa_offset_sf
      return set_cfa(row_.cfa.base_register, signed_factored());
    return false;
  }

  bool rule(unsigned code) {
    if (code < 0x05 || (code > 0x16 && code != 0x2f) || code == 0x12 || code == 0x13) return false;
    const std::uint64_t number = cursor_.unsigned_leb();
    switch (code) {
    case 0x05: // offset_extended
      return set(number, Rule::Kind::offset, factored(cursor_.unsigned_leb()));
    case 0x06: // restore_extended
      return restore(number);
    case 0x07: // undefined
      return set(number, Rule::Kind::undefined, 0);
    case 0x08: // same_value
      return set(number, Rule::Kind::same_value, 0);
    case 0x09: // register
      return set(number, Rule::Kind::in_register,
                 static_cast<std::int64_t>(cursor_.unsigned_leb()));
    case 0x10: // expression
      return expression(number, Rule::Kind::expression);
    case 0x11: // offset_extended_sf
      return set(number, Rule::Kind::offset, signed_factored());
    case 0x14: // val_offset
      return set(number, Rule::Kind::val_offset, factored(cursor_.unsigned_leb()));
    case 0x15: // val_offset_sf
      return set(number, Rule::Kind::val_offset, signed_factored());
    case 0x16: // val_expression
      return expression(number, Rule::Kind::val_expression);
    case 0x2f: // GNU_negative_offset_extended
      return set(
          number, Rule::Kind::offset,
          static_cast<std::int64_t>(-static_cast<std::uint64_t>(factored(cursor_.unsigned_leb()))));
    default:
      return false;
    }
  }

  bool advance(std::uint64_t delta) {
    std::uint64_t distance = 0;
    return !__builtin_mul_overflow(delta, cie_.code_alignment, &distance) &&
           !__builtin_add_overflow(location_, distance, &location_);
  }

  // Wraps around only for invalid factors; fits() rejects most of the results.
  std::int64_t factored(std::uint64_t number) const {
    return static_cast<std::int64_t>(number * static_cast<std::uint64_t>(cie_.data_alignment));
  }
  std::int64_t signed_factored() {
    return factored(static_cast<std::uint64_t>(cursor_.signed_leb()));
  }
  static bool fits(std::int64_t value) { return value == static_cast<std::int32_t>(value); }

  // DWARF 5, 6.4.2.2: instructions that change only the register or only the offset are invalid
  // if the CFA is not a register plus an offset.
  bool has_cfa_register() const { return row_.cfa.kind == CfaRule::Kind::register_offset; }
  bool set_cfa(std::uint64_t number, std::int64_t offset) {
    row_.cfa = {CfaRule::Kind::register_offset, static_cast<std::uint8_t>(number),
                static_cast<std::int32_t>(offset)};
    return number < Registers::count && fits(offset);
  }

  // Rules of float and vector registers are ignored: unwinding does not depend on them.
  bool set(std::uint64_t number, Rule::Kind kind, std::int64_t value) {
    if (number >= Registers::count) return true;
    row_.rules[number] = {kind, static_cast<std::int32_t>(value)};
    return fits(value);
  }

  bool expression(std::uint64_t number, Rule::Kind kind) {
    const std::uint64_t at = cursor_.at();
    cursor_.skip(cursor_.unsigned_leb());
    return set(number, kind, static_cast<std::int64_t>(at));
  }

  bool restore(std::uint64_t number) {
    if (number < Registers::count) row_.rules[number] = initial_.rules[number];
    return true;
  }

  const FrameSection& section_;
  const Cie& cie_;
  std::uint64_t begin_;
  std::uint64_t location_ = 0;
  std::uint64_t address_;
  DwarfCursor cursor_;
  Row row_;
  Row initial_; // after the instructions of the CIE
  std::vector<Row> remembered_;
};

} // namespace

Result<Row> row_at(const FrameSection& section, const Cie& cie, const Fde& fde,
                   std::uint64_t address) {
  Interpreter interpreter(section, cie, fde, address);
  if (cie.return_register >= Registers::count || !interpreter.run(cie.instructions, true) ||
      !interpreter.run(fde.instructions, false) ||
      interpreter.row().cfa.kind == CfaRule::Kind::unspecified)
    return fail(ErrorKind::corrupt,
                fmt::format("invalid call frame instructions for {:#x}", fde.begin));
  return interpreter.row();
}

std::optional<Extent> expression_at(const FrameSection& section, std::int32_t at) {
  DwarfCursor cursor(section.bytes, ByteOrder::little);
  cursor.seek(static_cast<std::uint64_t>(static_cast<std::uint32_t>(at)));
  const std::uint64_t size = cursor.unsigned_leb();
  const std::uint64_t begin = cursor.at();
  cursor.skip(size);
  if (cursor.failed()) return std::nullopt;
  return Extent{begin, cursor.at()};
}

} // namespace uprobectl::unwind
