// SPDX-License-Identifier: Apache-2.0
// Evaluates the DWARF expressions of call frame information (DWARF 5, 2.5 and 6.4.2.3) on saved
// memory.
#pragma once

#include "uprobectl/unwind.hpp"

namespace uprobectl::unwind {

// The saved pieces of a process's memory.
class Memory {
public:
  // mask: the significant bits of an address; the others may hold a tag.
  Memory(std::span<const MemoryPiece> pieces, std::uint64_t mask) : pieces_(pieces), mask_(mask) {}

  // Reads a number of 1 to 8 bytes. Returns nullopt if one of them was not saved.
  std::optional<std::uint64_t> read(std::uint64_t address, unsigned size = 8) const {
    address &= mask_;
    for (const MemoryPiece& piece : pieces_) {
      const std::uint64_t offset = address - (piece.address & mask_); // wraps around if it is below
      if (offset > piece.bytes.size() || size > piece.bytes.size() - offset) continue;
      std::uint64_t value = 0;  // every supported host is little-endian
      if (size == sizeof value) // the usual case, one instruction
        std::memcpy(&value, piece.bytes.data() + offset, sizeof value);
      else
        std::memcpy(&value, piece.bytes.data() + offset, size);
      return value;
    }
    return std::nullopt;
  }

private:
  std::span<const MemoryPiece> pieces_;
  std::uint64_t mask_;
};

enum class ExpressionFailure : std::uint8_t {
  corrupt,          // invalid, or uses an operation that is not allowed here
  not_saved,        // reads memory that was not saved
  unknown_register, // reads a register whose value is unknown
};

// Evaluates the expression and returns the value on top of its stack. `first`: the initial value on
// the stack, which is the CFA for a register rule.
std::expected<std::uint64_t, ExpressionFailure> evaluate(Bytes expression,
                                                         const Registers& registers,
                                                         const Memory& memory,
                                                         std::optional<std::uint64_t> first);

} // namespace uprobectl::unwind
