// Memory as it was saved.
#pragma once

#include "uprobectl/unwind.hpp"

namespace uprobectl::stacks {

class Memory {
public:
  // mask: the bits of an address that count; a tag may be above them.
  Memory(std::span<const MemoryPiece> pieces, std::uint64_t mask) : pieces_(pieces), mask_(mask) {}

  // A number of 1 to 8 bytes; nothing where not all of it was saved.
  std::optional<std::uint64_t> number(std::uint64_t address, unsigned size = 8) const {
    address &= mask_;
    for (const MemoryPiece& piece : pieces_) {
      const std::uint64_t offset = address - piece.address; // huge for one that lies before it
      if (offset > piece.bytes.size() || size > piece.bytes.size() - offset) continue;
      std::uint64_t value = 0;  // every supported host is little-endian
      if (size == sizeof value) // mostly, and then it is one instruction
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

} // namespace uprobectl::stacks
