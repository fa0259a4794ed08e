// SPDX-License-Identifier: Apache-2.0
#include "insn/control_flow.hpp"

#include "insn/decoder.hpp"

#include <algorithm>
#include <array>
#include <map>

namespace uprobectl::insn {

namespace {

bool begins_with_any(std::string_view name, std::span<const std::string_view> starts) {
  return std::ranges::any_of(starts,
                             [&](std::string_view start) { return name.starts_with(start); });
}

// Arithmetic on several integers or floats at once, by LLVM's names. Moves and what broadcasts a
// value are not: compilers copy and clear structures with them.
bool is_vector_arithmetic(Arch arch, std::string_view name) {
  if (arch == Arch::arm64) {
    // "ADDv4i32", "FMULv2f64", "ADD_ZZZ_S" (SVE), but not "MOVIv2d_ns", "DUPv4i32gpr", "LD1…".
    constexpr std::array<std::string_view, 8> moves = {"MOVI", "DUP", "LD1", "ST1",
                                                       "UMOV", "INS", "ORR", "EXT"};
    const auto lanes = name.find_first_of("v_");
    const bool is_vector =
        lanes != std::string_view::npos &&
        (name.substr(lanes).starts_with("_ZZ") || name.substr(lanes).starts_with("_ZPm") ||
         (name.size() > lanes + 2 && name[lanes] == 'v' && name[lanes + 1] >= '2' &&
          name[lanes + 1] <= '8' && name.find_first_of("if", lanes) != std::string_view::npos));
    return is_vector && !begins_with_any(name, moves);
  }
  if (name.starts_with('V')) name.remove_prefix(1);
  constexpr std::array<std::string_view, 11> integers = {
      "PADD", "PSUB", "PMUL", "PMADD", "PMAX", "PMIN", "PABS", "PAVG", "PSLL", "PSRL", "PSRA"};
  constexpr std::array<std::string_view, 16> floats = {
      "ADDPS", "ADDPD", "SUBPS", "SUBPD", "MULPS", "MULPD",   "DIVPS", "DIVPD",
      "MAXPS", "MAXPD", "MINPS", "MINPD", "SQRTP", "CVTDQ2P", "CVTP",  "CVTTP"};
  constexpr std::array<std::string_view, 4> fused = {"FMADD", "FMSUB", "FNMADD", "FNMSUB"};
  if (begins_with_any(name, fused)) return name.contains("PS") || name.contains("PD");
  return begins_with_any(name, integers) || begins_with_any(name, floats);
}

// Instructions after which nothing runs.
bool is_trap(std::string_view name) {
  constexpr std::array<std::string_view, 6> traps = {"TRAP", "UD1", "HLT", "INT3", "BRK", "UDF"};
  return begins_with_any(name, traps);
}

// Says how an instruction changes the control flow, or that it is vector arithmetic.
enum class Effect : std::uint8_t { unknown, none, trap, vector };

// The effects of instructions by their number in LLVM's tables: comparing names takes longer than
// decoding. One for each architecture and thread, as the decoder.
class Effects {
public:
  static Effects& for_arch(Arch arch) {
    thread_local std::map<Arch, Effects> effects;
    return effects[arch];
  }

  Effect of(Arch arch, const Decoder& decoder, const Decoder::Decoded& decoded) {
    const std::size_t opcode = decoded.instruction.getOpcode();
    if (known_.size() <= opcode) known_.resize(opcode + 1);
    Effect& effect = known_[opcode];
    if (effect != Effect::unknown) return effect;
    const std::string_view name = decoder.name(decoded);
    effect = is_trap(name)                      ? Effect::trap
             : is_vector_arithmetic(arch, name) ? Effect::vector
                                                : Effect::none;
    return effect;
  }

private:
  std::vector<Effect> known_;
};

} // namespace

class ControlFlow::Reader {
public:
  Reader(const Decoder& decoder, Arch arch, std::span<const Piece> pieces)
      : decoder_(decoder), arch_(arch), effects_(Effects::for_arch(arch)),
        pieces_(pieces.begin(), pieces.end()) {
    std::ranges::sort(pieces_, {}, &Piece::address);
  }

  bool read(VirtualAddress entry, std::span<const VirtualAddress> marks, ControlFlow& flow) {
    for (const VirtualAddress mark : marks) begins_.push_back(mark.value);
    begins_.push_back(entry.value);
    for (const Piece& piece : pieces_)
      if (!read_piece(piece, flow)) return false;
    make_blocks(flow);
    link(flow);
    flow.entry_ = flow.block_at(entry.value);
    return flow.entry_ != none;
  }

private:
  struct Jump {
    std::uint64_t address = 0;
    std::uint64_t end = 0;
    std::uint64_t target = 0; // 0: unknown or none
    bool falls_through = false;
    bool leaves = false;
    bool is_indirect = false;
  };

  bool read_piece(const Piece& piece, ControlFlow& flow) {
    begins_.push_back(piece.address.value);
    std::uint64_t start = 0; // of the instruction with its prefixes
    for (std::uint64_t at = 0; at < piece.code.size();) {
      const VirtualAddress address{piece.address.value + at};
      const auto decoded = decoder_.decode(piece.code.subspan(at), address);
      if (!decoded) return false;
      at += decoded->size;
      if (decoded->only_prefix) continue;
      add(*decoded, address,
          {.address = piece.address.value + start, .end = piece.address.value + at}, flow);
      start = at;
    }
    return true;
  }

  void add(const Decoder::Decoded& decoded, VirtualAddress address, Jump jump, ControlFlow& flow) {
    const llvm::MCInstrDesc& description = decoder_.description(decoded);
    if (!description.isTerminator() && !description.isBranch()) {
      const Effect effect = effects_.of(arch_, decoder_, decoded);
      if (effect == Effect::trap) jumps_.push_back(jump);
      if (effect == Effect::vector) flow.vectors_.push_back(jump.address);
      return;
    }
    if (description.isCall() && !description.isReturn() && !description.isBarrier()) return;
    if (description.isReturn()) {
      jump.leaves = true;
    } else if (description.isIndirectBranch()) {
      jump.is_indirect = true;
    } else if (description.isBranch()) {
      if (const auto target = decoder_.branch_target(decoded, address)) jump.target = target->value;
      jump.falls_through = !description.isBarrier();
      jump.leaves = piece_at(jump.target) == nullptr;
      if (!jump.leaves) begins_.push_back(jump.target);
    }
    jumps_.push_back(jump);
  }

  // Null outside of the function.
  const Piece* piece_at(std::uint64_t address) const {
    const auto after =
        std::ranges::upper_bound(pieces_, VirtualAddress{address}, {}, &Piece::address);
    if (after == pieces_.begin()) return nullptr;
    const Piece& piece = *std::prev(after);
    return address - piece.address.value < piece.code.size() ? &piece : nullptr;
  }

  void make_blocks(ControlFlow& flow) {
    for (const Jump& jump : jumps_)
      if (piece_at(jump.end) != nullptr) begins_.push_back(jump.end);
    std::ranges::sort(begins_);
    begins_.erase(std::ranges::unique(begins_).begin(), begins_.end());
    std::ranges::sort(jumps_, {}, &Jump::end);
    auto jump = jumps_.begin();
    for (std::size_t i = 0; i < begins_.size(); ++i) {
      const Piece* const piece = piece_at(begins_[i]);
      if (piece == nullptr) continue;
      const std::uint64_t piece_end = piece->address.value + piece->code.size();
      Block block{.begin = begins_[i], .end = piece_end};
      if (i + 1 < begins_.size()) block.end = std::min(block.end, begins_[i + 1]);
      while (jump != jumps_.end() && jump->end <= block.begin) ++jump;
      if (jump != jumps_.end() && jump->end == block.end) {
        block.jump = jump->address;
        block.leaves = jump->leaves;
        block.is_indirect = jump->is_indirect;
        targets_.push_back(jump->leaves ? 0 : jump->target);
        falls_.push_back(jump->falls_through);
      } else {
        targets_.push_back(0);
        falls_.push_back(true);
      }
      flow.blocks_.push_back(block);
    }
  }

  void link(ControlFlow& flow) {
    std::vector<Block>& blocks = flow.blocks_;
    std::vector<std::uint32_t> count(blocks.size() + 1);
    const auto note = [&](std::uint32_t to) {
      if (to != none) ++count[to + 1];
    };
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      if (falls_[i] && i + 1 < blocks.size() && blocks[i + 1].begin == blocks[i].end)
        blocks[i].next = static_cast<std::uint32_t>(i + 1);
      if (targets_[i] != 0) blocks[i].target = flow.block_at(targets_[i]);
      note(blocks[i].next);
      note(blocks[i].target);
    }
    for (std::size_t i = 0; i < blocks.size(); ++i)
      if (count[i + 1] == 0) flow.unnamed_.push_back(static_cast<std::uint32_t>(i));
    for (Block& block : blocks)
      if (block.is_indirect && flow.unnamed_.size() < 2) block.leaves = true; // a tail call
    for (std::size_t i = 1; i < count.size(); ++i) count[i] += count[i - 1];
    flow.before_begin_ = count;
    flow.before_.resize(count.back());
    for (std::size_t i = 0; i < blocks.size(); ++i)
      for (const std::uint32_t to : {blocks[i].next, blocks[i].target})
        if (to != none) flow.before_[count[to]++] = static_cast<std::uint32_t>(i);
  }

  const Decoder& decoder_;
  Arch arch_;
  Effects& effects_;
  std::vector<Piece> pieces_;         // by address
  std::vector<std::uint64_t> begins_; // of blocks
  std::vector<Jump> jumps_;
  std::vector<std::uint64_t> targets_; // of blocks, 0 without one
  std::vector<bool> falls_;            // a block continues into the next
};

std::optional<ControlFlow> ControlFlow::read(Arch arch, std::span<const Piece> pieces,
                                             VirtualAddress entry,
                                             std::span<const VirtualAddress> marks) {
  const Decoder* const decoder = Decoder::for_arch(arch);
  if (decoder == nullptr) return std::nullopt;
  std::optional flow = ControlFlow();
  if (!Reader(*decoder, arch, pieces).read(entry, marks, *flow)) return std::nullopt;
  return flow;
}

std::uint32_t ControlFlow::block_at(std::uint64_t begin) const {
  const auto found = std::ranges::lower_bound(blocks_, begin, {}, &Block::begin);
  return found != blocks_.end() && found->begin == begin
             ? static_cast<std::uint32_t>(found - blocks_.begin())
             : none;
}

template <typename Visit>
bool ControlFlow::all_blocks(std::span<const CodeRange> region, Visit visit) const {
  for (const CodeRange& range : region) {
    auto block = std::ranges::upper_bound(blocks_, range.begin.value, {}, &Block::end);
    for (; block != blocks_.end() && block->begin < range.end.value; ++block)
      if (!visit(static_cast<std::uint32_t>(block - blocks_.begin()))) return false;
  }
  return true;
}

bool ControlFlow::is_marked(std::span<const CodeRange> region,
                            std::span<const VirtualAddress> marks) const {
  std::vector<bool> is_mark(blocks_.size());
  for (const VirtualAddress mark : marks) {
    const std::uint32_t block = block_at(mark.value);
    if (block == none) return false;
    is_mark[block] = true;
    // The loop may begin with instructions of the caller, before the mark.
    for (std::uint32_t at = block;;) {
      for (std::uint32_t i = before_begin_[at]; i < before_begin_[at + 1]; ++i) {
        const Block& from = blocks_[before_[i]];
        if (from.target == at && contains(region, from.jump)) return false;
      }
      if (at == entry_ || at == 0 || blocks_[at - 1].next != at || blocks_[at - 1].jump != 0) break;
      --at;
    }
  }
  const auto has_unmarked = [&](std::span<const CodeRange> code) {
    return !all_blocks(code, [&](std::uint32_t block) { return bool(is_mark[block]); });
  };
  if (!has_unmarked(region)) return true;

  // Reached from the entry without a mark.
  std::vector<bool> is_reached(blocks_.size());
  std::vector<std::uint32_t> left;
  const auto reach = [&](std::uint32_t block) {
    if (block == none || is_mark[block] || is_reached[block]) return;
    is_reached[block] = true;
    left.push_back(block);
  };
  bool reached_unnamed = false;
  reach(entry_);
  while (!left.empty()) {
    const Block& block = blocks_[left.back()];
    left.pop_back();
    reach(block.next);
    reach(block.target);
    if (!block.is_indirect || reached_unnamed) continue;
    reached_unnamed = true;
    for (const std::uint32_t each : unnamed_) reach(each);
  }
  if (all_blocks(region, [&](std::uint32_t block) { return !is_reached[block]; })) return true;

  // The blocks from which an exit is reached without a mark.
  std::vector<bool> leaves(blocks_.size());
  const auto reach_back = [&](std::uint32_t block) {
    if (is_mark[block] || leaves[block]) return;
    leaves[block] = true;
    left.push_back(block);
  };
  for (std::uint32_t i = 0; i < blocks_.size(); ++i)
    if (blocks_[i].leaves) reach_back(i);
  bool left_unnamed = false;
  while (!left.empty()) {
    const std::uint32_t block = left.back();
    left.pop_back();
    for (std::uint32_t i = before_begin_[block]; i < before_begin_[block + 1]; ++i)
      reach_back(before_[i]);
    if (left_unnamed || before_begin_[block] != before_begin_[block + 1] || block == entry_)
      continue;
    left_unnamed = true;
    for (std::uint32_t i = 0; i < blocks_.size(); ++i)
      if (blocks_[i].is_indirect) reach_back(i);
  }
  return all_blocks(region,
                    [&](std::uint32_t block) { return !is_reached[block] || !leaves[block]; });
}

bool ControlFlow::is_in_sequence(VirtualAddress mark) const {
  const std::uint32_t block = block_at(mark.value);
  if (block == none) return false;
  const auto first = before_begin_[block];
  const auto count = before_begin_[block + 1] - first;
  if (block == entry_) return count == 0;
  return count == 1 && blocks_[before_[first]].next == block && blocks_[before_[first]].jump == 0;
}

bool ControlFlow::follows_entry(VirtualAddress mark) const {
  const std::uint32_t block = block_at(mark.value);
  return block != none && block != entry_ && is_in_sequence(mark) &&
         before_[before_begin_[block]] == entry_;
}

bool ControlFlow::joins(std::span<const CodeRange> region, VirtualAddress mark) const {
  const std::uint32_t block = block_at(mark.value);
  if (block == none || before_begin_[block + 1] - before_begin_[block] < 2) return false;
  for (std::uint32_t i = before_begin_[block]; i < before_begin_[block + 1]; ++i)
    if (contains(region, blocks_[before_[i]].end - 1)) return true;
  return false;
}

bool ControlFlow::has_vectors(std::span<const CodeRange> region) const {
  return std::ranges::any_of(region, [&](const CodeRange& range) {
    const auto first = std::ranges::lower_bound(vectors_, range.begin.value);
    return first != vectors_.end() && *first < range.end.value;
  });
}

} // namespace uprobectl::insn
