// SPDX-License-Identifier: Apache-2.0
// Where a value is at an instruction: DWARF location expressions (DWARF 5, 2.5 and 2.6) in the form
// that a BPF program can follow.
#pragma once

#include "uprobectl/elf.hpp"

namespace uprobectl::dwarf {

// A number that is known at run time: base + offsets and loads. Each load replaces the number by
// the word at number + its offset; addend is added last.
struct Formula {
  enum class Base : std::uint8_t {
    zero,             // the number is a constant
    machine_register, // its content
    image,            // an address of the image, where the process has loaded it
  };
  Base base = Base::zero;
  std::uint8_t machine_register = 0; // DWARF number
  std::vector<std::int64_t> loads = {};
  std::int64_t addend = 0; // of Base::image: with the address
  // Only some bits of the result are used: `bit_count` from `bit_offset` on, zero-extended.
  std::uint8_t bit_offset = 0;
  std::uint8_t bit_count = 0; // 0: all above bit_offset

  bool operator==(const Formula&) const = default;
};

// One part of a value; most values have one.
struct Piece {
  enum class Kind : std::uint8_t {
    missing, // optimized out
    value,   // the number is the value
    memory,  // the number is the value's address
  };
  Kind kind = Kind::missing;
  Formula formula = {};
  std::uint32_t size = 0;   // bytes; 0: the whole value, if there are no other pieces
  std::string problem = {}; // of a missing piece, if it is not optimized out

  bool operator==(const Piece&) const = default;
};

// Where a value is. Empty pieces: `problem` says why it cannot be read.
struct Location {
  enum class Reason : std::uint8_t {
    other,
    not_set_up, // at the entry: it will be in the frame that the function's first instructions make
  };
  std::vector<Piece> pieces = {};
  std::string problem = {};
  Reason reason = Reason::other; // of the problem
  // The location of the number of characters, an integer of length_size bytes, of a string whose
  // type has no length (Fortran's `character(*)`).
  std::shared_ptr<const Location> length = {};
  std::uint32_t length_size = 0;

  bool is_readable() const { return problem.empty() && !pieces.empty(); }
  bool operator==(const Location&) const = default;
};

inline const std::string optimized_out = "optimized out";
Location in_register(std::uint8_t dwarf_number);
Location in_memory(Formula address);
Location unreadable(std::string problem);
Location not_set_up();

// The registers and code that the expressions of a function refer to, at one instruction.
struct LocationContext {
  const ArchInfo* arch = nullptr; // never null
  std::uint8_t address_size = 8;  // bytes
  // The instruction is the first of the function: DW_OP_entry_value is the register's value now,
  // and the function's own stack frame has not been written.
  bool at_entry = false;
  std::optional<Formula> cfa = {};         // the canonical frame address (DWARF 5, 6.4)
  std::optional<Location> frame_base = {}; // DW_AT_frame_base
};

// A base type that DW_OP_convert names.
struct NumberType {
  std::uint32_t bits = 0;
  bool is_signed = false;
};

// Reads the data that expressions refer to by an index or an offset.
class ExpressionData {
public:
  virtual ~ExpressionData() = default;
  // An index of .debug_addr (DW_OP_addrx).
  virtual std::optional<std::uint64_t> read_address(std::uint64_t index) const = 0;
  // The offset of an entry in the unit (DW_OP_convert).
  virtual std::optional<NumberType> read_type(std::uint64_t offset) const = 0;
};

// Evaluates a location expression (DWARF 5, 2.5). The problem of the location says if it is damaged
// or not supported.
Location evaluate(Bytes expression, ByteOrder order, const LocationContext& context,
                  const ExpressionData& data);

// Returns the text to show: "rdi", "[rsp+8]", "[rdi+16]+4", "optimized out".
std::string to_string(const Location& location, const ArchInfo& arch);

} // namespace uprobectl::dwarf
