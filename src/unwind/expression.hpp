// SPDX-License-Identifier: Apache-2.0
// DWARF expressions as used by call frame information (DWARF 5, 2.5 and 6.4.2.3), and the saved
// memory that they read.
#pragma once

#include "uprobectl/unwind.hpp"

namespace uprobectl::unwind {

// The saved pieces of a process's memory.
class Memory {
public:
  // mask: the significant bits of an address; the others may hold a tag.
  Memory(std::span<const MemoryPiece> pieces, std::uint64_t mask) : pieces_(pieces), mask_(mask) {}

  // A number of 1 to 8 bytes; nullopt if not all of it was saved.
  std::optional<std::uint64_t> number(std::uint64_t address, unsigned size = 8) const {
    address &= mask_;
    for (const MemoryPiece& piece : pieces_) {
      const std::uint64_t offset = address - piece.address; // wraps around if it is below
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
  corrupt,          // or an operation that is not allowed here
  not_saved,        // reads memory that was not saved
  unknown_register, // reads a register whose value is unknown
};

// The value on top of the stack at the end. `first`: the initial stack, the CFA for a register
// rule.
std::expected<std::uint64_t, ExpressionFailure> evaluate(Bytes expression,
                                                         const Registers& registers,
                                                         const Memory& memory,
                                                         std::optional<std::uint64_t> first);

} // namespace uprobectl::unwind
