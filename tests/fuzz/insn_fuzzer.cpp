// SPDX-License-Identifier: Apache-2.0
// Instructions from any bytes: the first byte selects the instruction set, the next two an address.
#include "insn/code_forms.hpp"
#include "insn/control_flow.hpp"
#include "insn/forwarding.hpp"
#include "require.hpp"
#include "uprobectl/insn/return_code.hpp"

#include <algorithm>
#include <array>
#include <functional>

using namespace uprobectl;

namespace {

// Exits are in order and inside, each where an instruction begins; targets are outside.
void require_exits(Arch arch, Bytes function, VirtualAddress address) {
  const auto exits = insn::function_exits(arch, function, address);
  const bool supported = arch != Arch::arm && arch != Arch::thumb;
  require(exits.has_value() == supported);
  if (!exits) return;
  const auto check = [&](std::uint64_t offset) {
    require(offset < function.size() && insn::instruction_size(arch, function.subspan(offset)));
  };
  std::ranges::for_each(exits->returns, check);
  require(std::ranges::adjacent_find(exits->returns, std::greater_equal()) == exits->returns.end());
  for (const insn::FunctionExits::Jump& jump : exits->jumps_out) {
    check(jump.offset);
    require(!jump.target || jump.target->value - address.value >= function.size());
    require(!jump.target || !jump.slot);
    require((jump.kind == insn::FunctionExits::Jump::Kind::jump) == (jump.target || jump.slot));
  }
  for (const insn::FunctionExits::Jump& jump : exits->jumps_to_entry) {
    check(jump.offset);
    require(jump.target == address);
  }
  for (const std::uint64_t offset : exits->undecodable) require(offset < function.size());
  const auto reached = insn::reached_exits(arch, function, address, {});
  if (!reached) return;
  std::ranges::for_each(reached->returns, check);
  for (const insn::FunctionExits::Jump& jump : reached->jumps_out) check(jump.offset);
}

// A region without code is marked by nothing, and one with a mark outside of the function is not.
void require_flow(Arch arch, Bytes function, VirtualAddress address, std::uint64_t offset) {
  const insn::ControlFlow::Piece piece{address, function};
  const VirtualAddress mark{address.value + offset};
  const auto flow =
      insn::ControlFlow::read(arch, std::span(&piece, 1), address, std::span(&mark, 1));
  if (!flow) return;
  const insn::CodeRange region{mark, {mark.value + 1}};
  const bool is_inside = offset < function.size();
  require(flow->is_marked({}, {}));
  require(is_inside || !flow->is_marked(std::span(&region, 1), std::span(&mark, 1)));
  require(is_inside || !flow->is_in_sequence(mark));
  static_cast<void>(flow->joins(std::span(&region, 1), address));
  static_cast<void>(flow->has_vectors(std::span(&region, 1)));
}

// What the bytes alone show agrees with the decoder. The distance of a far target from the end of
// its jump has 32 bits.
void require_forms(Arch arch, Bytes function, VirtualAddress address) {
  const auto exits = insn::function_exits(arch, function, address);
  if (insn::return_register_at(arch, function))
    require(exits && !exits->returns.empty() && exits->returns.front() == 0);
  insn::each_far_target(arch, function, address, [&](VirtualAddress target) {
    const auto distance = static_cast<std::int64_t>(target.value - address.value);
    require(distance >= INT32_MIN && distance <= INT32_MAX + std::ssize(function));
  });
  const auto no_word = [](std::uint64_t) -> std::optional<std::uint64_t> { return std::nullopt; };
  const bool is_jump = insn::written_jump_at(arch, function, address.value, no_word).has_value();
  require(!is_jump || arch == Arch::x86_64 || arch == Arch::i386 || arch == Arch::arm64);
  for (const auto form : {insn::may_begin_with_jump, insn::may_be_jump_table_entry,
                          insn::begins_frame, insn::repeats})
    static_cast<void>(form(arch, function));
}

} // namespace

int fuzz_insn(const std::uint8_t* data, std::size_t size) {
  constexpr std::array sets = {Arch::x86_64, Arch::i386, Arch::arm64, Arch::arm, Arch::thumb};
  constexpr std::size_t header = 3;
  if (size < header) return 0;
  const Bytes all(reinterpret_cast<const std::byte*>(data), size);
  const auto arch = sets[data[0] % sets.size()];
  const std::uint64_t offset = read_at<std::uint16_t>(all, 1).value_or(0);
  const Bytes function = all.subspan(header);

  require_flow(arch, function, {0x1000}, offset);
  require_forms(arch, function, {0x1000});
  if (const auto nop = insn::optimized_nop(arch, function))
    require(insn::instruction_size(arch, function) ==
            (*nop == insn::OptimizedNop::five_bytes ? 5 : 10));
  const auto around = insn::instruction_around(arch, function, offset);
  const auto boundary = insn::boundary_at(arch, function, offset);
  if (around) {
    require(around->offset <= offset && offset - around->offset < around->size);
    require((boundary == insn::Boundary::yes) == (around->offset == offset));
  } else {
    require(boundary != insn::Boundary::yes);
  }

  for (Bytes rest = function; !rest.empty();) {
    const auto length = insn::instruction_size(arch, rest);
    const auto text =
        insn::instruction_text(arch, rest, VirtualAddress{offset << 48 | rest.size()});
    if (text) require(length && !text->empty() && text->find_first_of("\t\n") == text->npos);
    if (!length) break;
    require(*length > 0 && *length <= rest.size() && *length <= 15);
    rest = rest.subspan(*length);
  }
  require_exits(arch, function, {offset << 48 | offset});
  const auto returned =
      insn::find_return_code(arch, {0x1000 + offset % 64}, [&](VirtualAddress at) {
        const std::uint64_t into = at.value - 0x1000;
        return into < function.size() ? function.subspan(into) : Bytes();
      });
  constexpr std::uint64_t most = std::uint64_t{32} << 20U; // bytes of 32 instructions
  require(!returned || returned->raises_stack <= most);
  static_cast<void>(insn::only_forwards(arch, function, {offset << 48 | offset}));
  return 0;
}
