// SPDX-License-Identifier: Apache-2.0
#include "resolve/nops.hpp"

#include "insn/code_forms.hpp"
#include "resolve/code_index.hpp"

#include <algorithm>
#include <array>

namespace uprobectl::resolve {

namespace {

// Limits the size of a function, bytes, and so the work that a malformed symbol table can cause.
constexpr std::uint64_t max_passed_function = std::uint64_t{4} << 20U;

constexpr std::string_view unknown_code =
    "this kernel makes a call of the nop there, which ends forked children, and the code after it "
    "is not known well enough to probe that instead";
constexpr std::string_view jump_after =
    "this kernel makes a call of the nop there, which ends forked children, and a jump may lead to "
    "the instruction after it, so that a probe there would have more hits";
constexpr std::string_view unprobeable_after =
    "this kernel makes a call of the nop there, which ends forked children, and the instruction "
    "after it cannot be probed, or has several hits";

// Whether the jump may lead to any instruction of its function. One that has just removed a frame
// leaves the function.
bool is_unknown(const insn::FunctionExits::Jump& jump) {
  if (jump.target || jump.slot) return false;
  return jump.kind != insn::FunctionExits::Jump::Kind::indirect || !jump.moves_stack;
}

} // namespace

NopPasser::NopPasser(CodeIndex& code) : code_(code), arch_(code.image().machine().arch) {}

Bytes NopPasser::code_from(VirtualAddress address) const {
  const elf::Segment* const segment = code_.image().find_segment(address);
  if (segment == nullptr || !segment->executable) return {};
  const std::uint64_t into = address.value - segment->address.value;
  return slice(code_.image().bytes(), segment->offset.value + into, segment->file_size - into)
      .value_or(Bytes());
}

bool NopPasser::is_after_nop(VirtualAddress address) const {
  constexpr std::array<std::uint64_t, 2> sizes = {5, 10};
  return std::ranges::any_of(sizes, [&](std::uint64_t size) {
    if (address.value < size) return false;
    const Bytes code = code_from({address.value - size});
    const auto nop = insn::optimized_nop(
        arch_, code.first(std::min<std::uint64_t>(code.size(), insn::max_instruction_size)));
    return nop && (*nop == insn::OptimizedNop::five_bytes) == (size == 5);
  });
}

// Jumps with a distance of one byte from other functions are not found; only assembly has them.
void NopPasser::list_far_jumps() {
  far_targets_.emplace();
  // A malicious file can map the same bytes by a thousand segments. Others have one or two.
  constexpr std::size_t max_segments = 64;
  std::size_t segments = 0;
  std::uint64_t searched = 0; // bytes
  for (const elf::Segment& segment : code_.image().segments()) {
    if (!segment.executable) continue;
    const Bytes code = code_from(segment.address);
    searched += code.size();
    knows_far_jumps_ = ++segments <= max_segments && searched / 2 <= code_.image().bytes().size();
    if (!knows_far_jumps_) return;
    insn::each_far_target(arch_, code, segment.address, [&](VirtualAddress target) {
      if (is_after_nop(target)) far_targets_->push_back(target);
    });
  }
  std::ranges::sort(*far_targets_);
}

// Returns the reason if control may reach the instruction after the nop in another way.
std::optional<std::string_view> NopPasser::find_jump(elf::AddressRange code, Bytes bytes,
                                                     std::uint64_t nop, std::uint64_t after) {
  const VirtualAddress target{code.address.value + after};
  if (!far_targets_) list_far_jumps();
  if (!knows_far_jumps_) return unknown_code;
  if (std::ranges::binary_search(*far_targets_, target)) return jump_after;
  if (const auto symbol = code_.symbol_at(target); symbol && symbol->address == target)
    return jump_after;
  const auto before = insn::function_exits(arch_, bytes.first(nop), code.address);
  const auto rest = insn::function_exits(arch_, bytes.subspan(after), target);
  if (!before || !rest || !before->undecodable.empty() || !rest->undecodable.empty())
    return unknown_code;
  if (!rest->jumps_to_entry.empty() ||
      std::ranges::any_of(before->jumps_out,
                          [&](const auto& jump) { return jump.target == target; }))
    return jump_after;
  if (insn::begins_frame(arch_, bytes.subspan(after))) return std::nullopt;
  const bool any_unknown = std::ranges::any_of(before->jumps_out, is_unknown) ||
                           std::ranges::any_of(rest->jumps_out, is_unknown);
  return any_unknown ? std::optional(jump_after) : std::nullopt;
}

std::expected<std::uint64_t, std::string_view> NopPasser::pass(VirtualAddress nop,
                                                               elf::AddressRange code) {
  // A malicious file can have functions that overlap. Others stay below the limit.
  constexpr std::uint64_t times = 8;
  const std::uint64_t begin = nop.value - code.address.value;
  const Bytes bytes = code_from(code.address);
  if (begin >= code.size || code.size > std::min<std::uint64_t>(bytes.size(), max_passed_function))
    return std::unexpected(unknown_code);
  const Bytes function = bytes.first(code.size);
  std::uint64_t at = begin;
  do {
    decoded_ += code.size;
    if (decoded_ / times > code_.image().bytes().size()) return std::unexpected(unknown_code);
    const auto size = insn::instruction_size(arch_, function.subspan(at));
    if (!size || *size >= function.size() - at) return std::unexpected(unknown_code);
    if (const auto reason = find_jump(code, function, at, at + *size))
      return std::unexpected(*reason);
    at += *size;
  } while (insn::optimized_nop(arch_, function.subspan(at)));
  if (insn::repeats(arch_, function.subspan(at)) ||
      insn::probe_effect(arch_, function, at).kind != insn::ProbeEffect::Kind::safe)
    return std::unexpected(unprobeable_after);
  return at - begin;
}

} // namespace uprobectl::resolve
