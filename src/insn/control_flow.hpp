// SPDX-License-Identifier: Apache-2.0
// Which code of a function runs after which, by its direct jumps. It decides whether an instruction
// runs once for each pass through a region of the function, as the entry of an inlined call does.
#pragma once

#include "uprobectl/insn.hpp"

#include <algorithm>
#include <span>

namespace uprobectl::insn {

// Addresses from `begin` up to `end`.
struct CodeRange {
  VirtualAddress begin;
  VirtualAddress end;
};

inline bool contains(std::span<const CodeRange> region, std::uint64_t address) {
  return std::ranges::any_of(region, [&](const CodeRange& range) {
    return address >= range.begin.value && address < range.end.value;
  });
}

class ControlFlow {
public:
  struct Piece {
    VirtualAddress address;
    Bytes code;
  };
  // Reads a function. The entry is in one of the pieces. `marks`: the addresses that the
  // functions below are asked about. Returns nullopt for architectures without a disassembler (arm,
  // Thumb), and if the code does not decode.
  static std::optional<ControlFlow> read(Arch arch, std::span<const Piece> pieces,
                                         VirtualAddress entry,
                                         std::span<const VirtualAddress> marks);

  // Whether each pass from the function's entry to one of its exits that runs code of the region
  // runs one of the marks, and no jump of the region leads back to one.
  bool is_marked(std::span<const CodeRange> region, std::span<const VirtualAddress> marks) const;
  // Whether the instruction runs whenever the one before it does: no jump ends there or passes it.
  bool is_in_sequence(VirtualAddress mark) const;
  // Whether the instruction runs once for each run of the function's first instruction, by code
  // without a jump, and not in another way.
  bool follows_entry(VirtualAddress mark) const;
  // Whether code of the region continues at the mark of another one, which more code leads to: the
  // compiler may have joined two copies that are equal.
  bool joins(std::span<const CodeRange> region, VirtualAddress mark) const;
  // Whether the region computes several values at once, by vector instructions: a loop that the
  // compiler has vectorized does the work of several passes in one.
  bool has_vectors(std::span<const CodeRange> region) const;

private:
  static constexpr std::uint32_t none = UINT32_MAX;

  struct Block {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::uint64_t jump = 0;    // address of the jump at its end
    std::uint32_t next = none; // the block that it falls into
    std::uint32_t target = none;
    bool leaves = false;      // the function
    bool is_indirect = false; // its jump leads to any of `unnamed_`
  };
  class Reader;

  std::uint32_t block_at(std::uint64_t begin) const;
  // Visits the blocks with code of the region until `visit` returns false; returns whether it did.
  template <typename Visit>
  bool all_blocks(std::span<const CodeRange> region, Visit visit) const;

  std::vector<Block> blocks_; // by address
  // Blocks before each block, flat; those of block i begin at before_begin_[i].
  std::vector<std::uint32_t> before_;
  std::vector<std::uint32_t> before_begin_;
  std::vector<std::uint32_t> unnamed_; // blocks that nothing falls into or names as its target
  std::vector<std::uint64_t> vectors_; // addresses of vector instructions
  std::uint32_t entry_ = none;
};

} // namespace uprobectl::insn
