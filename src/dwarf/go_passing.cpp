// SPDX-License-Identifier: Apache-2.0
#include "dwarf/go_passing.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl::dwarf {

namespace {

constexpr int max_result_depth = 16;
constexpr std::uint64_t max_size = std::uint64_t{1} << 24; // of a result, bytes
constexpr std::size_t max_visited = 4096;                  // types

// Assigns registers in the order of the results.
class ResultRegisters {
public:
  explicit ResultRegisters(const ArchInfo& arch) : arch_(arch) {}

  void add(const Member& result) {
    const State before = state_;
    const std::size_t pieces = location_.pieces.size();
    const Fit fit = is_known_ ? take(*result.type, result.offset, 0) : Fit::unknown;
    is_known_ = is_known_ && fit != Fit::unknown;
    if (fit == Fit::registers) return;
    state_ = before;
    location_.pieces.resize(pieces);
    end_ = pieces == 0 ? 0 : end_of_pieces();
    add_piece(result.offset, result.type->size(),
              {.problem = fit == Fit::stack ? "on the stack, where it is not read"
                                            : "how its type is returned is not known"});
  }

  // `size`: of all results, bytes.
  Location finish(std::uint64_t size) && {
    add_padding(size);
    const bool is_missing = std::ranges::all_of(
        location_.pieces, [](const Piece& piece) { return piece.kind == Piece::Kind::missing; });
    if (!is_missing) return std::move(location_);
    const auto first = std::ranges::find_if(
        location_.pieces, [](const Piece& piece) { return !piece.problem.empty(); });
    return unreadable(first == location_.pieces.end() ? optimized_out : first->problem);
  }

private:
  enum class Fit : std::uint8_t { registers, stack, unknown };
  struct State {
    std::size_t integers = 0;
    std::size_t vectors = 0;
  };

  std::uint64_t end_of_pieces() const {
    std::uint64_t end = 0;
    for (const Piece& piece : location_.pieces) end += piece.size;
    return end;
  }

  void add_padding(std::uint64_t offset) {
    if (offset > end_)
      location_.pieces.push_back({.size = static_cast<std::uint32_t>(offset - end_)});
    end_ = std::max(end_, offset);
  }

  void add_piece(std::uint64_t offset, std::uint64_t size, Piece piece) {
    if (size == 0) return;
    add_padding(offset);
    piece.size = static_cast<std::uint32_t>(size);
    location_.pieces.push_back(std::move(piece));
    end_ = offset + size;
  }

  Fit take_integer(std::uint64_t offset, std::uint64_t size) {
    const auto registers = arch_.go->argument_registers;
    if (size > sizeof(std::uint64_t)) return Fit::unknown;
    if (state_.integers == registers.size()) return Fit::stack;
    const std::uint8_t number = arch_.registers[registers[state_.integers++]].dwarf;
    if (number == no_register) return Fit::unknown;
    add_piece(offset, size, in_register(number).pieces.front());
    return Fit::registers;
  }

  Fit take_float(std::uint64_t offset, std::uint64_t size) {
    if (state_.vectors == arch_.go->vector_registers) return Fit::stack;
    add_piece(offset, size,
              {.problem = fmt::format("{}{}: not readable", arch_.unsaved.front().prefix,
                                      state_.vectors++)});
    return Fit::registers;
  }

  Fit take(const Type& type, std::uint64_t offset, int depth) {
    if (depth > max_result_depth || ++visited_ > max_visited) return Fit::unknown;
    if (type.is_complex()) {
      const std::uint64_t half = type.size() / 2;
      const Fit real = take_float(offset, half);
      return real == Fit::registers ? take_float(offset + half, half) : real;
    }
    switch (type.kind()) {
    case TypeKind::floating:
      return take_float(offset, type.size());
    case TypeKind::structure:
      for (const Member& member : type.members())
        if (const Fit fit = take(*member.type, offset + member.offset, depth + 1);
            fit != Fit::registers)
          return fit;
      return Fit::registers;
    case TypeKind::array:
      if (type.target() == nullptr) return Fit::unknown;
      if (type.element_count() > 1) return Fit::stack;
      return type.size() == 0 ? Fit::registers : take(*type.target(), offset, depth + 1);
    case TypeKind::function: // the address of a closure
      return take_integer(offset, sizeof(std::uint64_t));
    case TypeKind::unknown:
    case TypeKind::none:
    case TypeKind::variants:
      return Fit::unknown;
    case TypeKind::integer:
    case TypeKind::boolean:
    case TypeKind::character:
    case TypeKind::enumeration:
    case TypeKind::pointer:
    case TypeKind::reference:
      break;
    }
    return take_integer(offset, type.size());
  }

  const ArchInfo& arch_;
  State state_;
  Location location_;
  std::uint64_t end_ = 0; // of the pieces
  std::size_t visited_ = 0;
  bool is_known_ = true;
};

} // namespace

Location locate_go_results(const elf::Machine& machine, std::span<const Member> results) {
  const ArchInfo& arch = machine.info();
  if (arch.go == nullptr || results.empty())
    return unreadable("the calling convention is not known");
  if (std::ranges::any_of(results,
                          [](const Member& result) { return result.type->size() > max_size; }))
    return unreadable("how its type is returned is not known");
  ResultRegisters registers(arch);
  for (const Member& result : results) registers.add(result);
  return std::move(registers).finish(results.back().offset + results.back().type->size());
}

} // namespace uprobectl::dwarf
