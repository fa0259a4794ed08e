// SPDX-License-Identifier: Apache-2.0
#include "trace/binary_cache.hpp"

#include "uprobectl/symbols.hpp"

namespace uprobectl {

Binary::Binary(std::shared_ptr<const ProbedBinary> probed, elf::DebugSearch where)
    : probed_(std::move(probed)), where_(std::move(where)) {}

Result<const FunctionReader*> Binary::functions() {
  if (!functions_) {
    functions_ = FunctionReader::open(probed_, where_.places);
    if (*functions_ && probed_->machine.is_64bit)
      (*functions_)->use_frames([this](const elf::Image&, VirtualAddress at) {
        return has_frame(at);
      });
  }
  if (!*functions_) return fail(functions_->error());
  return &**functions_;
}

Result<const elf::Image*> Binary::image() {
  const auto reader = functions();
  return reader ? Result<const elf::Image*>(&(*reader)->image()) : fail(reader.error());
}

Result<const elf::Image*> Binary::image_with_debug_symbols() {
  const auto reader = functions();
  return reader ? Result<const elf::Image*>(&(*reader)->image_with_debug_symbols())
                : fail(reader.error());
}

Result<const dwarf::DebugInfo*> Binary::debug_info() {
  if (!debug_info_) {
    const auto opened = image();
    if (!opened) return fail(opened.error());
    debug_info_ = dwarf::DebugInfo::open(**opened, where_);
  }
  if (!*debug_info_) return fail(debug_info_->error());
  return &**debug_info_;
}

unwind::UnwindData* Binary::frames() {
  if (frames_) return &*frames_;
  const auto opened = image();
  const auto arch = opened ? unwind::unwound_arch((*opened)->machine()) : std::nullopt;
  return arch ? &frames_.emplace(**opened, *arch, where_) : nullptr;
}

// Returns true if the function has a stack frame at the address. At the first instruction, and
// after the epilogue, the CFA is right above the return address; on arm64 the return address is in
// the link register then. A CFA that is based on other registers belongs to code that switches
// stacks.
bool Binary::has_frame(VirtualAddress at) {
  using Kind = unwind::Rule::Kind;
  unwind::UnwindData* const frames = this->frames();
  if (frames == nullptr) return false;
  const UnwindInfo& unwind = *arch_info(frames->arch()).unwind;
  const unwind::Step& step = frames->step(at, at);
  if (step.kind != unwind::Step::Kind::row ||
      step.cfa.kind != unwind::CfaRule::Kind::register_offset)
    return false;
  const bool by_stack = step.cfa.base_register == unwind.stack_pointer;
  if (!by_stack && step.cfa.base_register != unwind.frame_pointer) return false;
  const std::int32_t pushed_by_call = unwind.link_register == no_register ? 8 : 0;
  return step.cfa.value > pushed_by_call && step.return_rule.kind == Kind::offset;
}

bool Binary::has_return_address(const ProbePoint& point) {
  unwind::UnwindData* const frames = this->frames();
  if (frames == nullptr || frames->arch() != host_arch) return false;
  if (frames->has_return_address(uprobe_address(point))) return true;
  const auto function = point.static_probe ? symbol_at(**image(), point.address) : std::nullopt;
  return function && function->offset == 0 && function->symbol.size > 0;
}

Result<FunctionReturns> Binary::returns(const ProbePoint& point) {
  if (const auto planned = planned_returns_.find(point.address); planned != planned_returns_.end())
    return planned->second;
  const auto reader = functions();
  return reader ? (*reader)->returns(point) : fail(reader.error());
}

void Binary::set_returns(const ProbePoint& point, FunctionReturns returns) {
  planned_returns_.insert_or_assign(point.address, std::move(returns));
}

CodeAbi Binary::code_abi(const ProbePoint& point, bool strings) {
  CodeAbi abi;
  if (!probed_->machine.is_64bit) abi.kind = CodeKind::native_32;
  const auto reader = functions();
  if (!reader) return abi;
  if ((*reader)->language_of(point) == CodeLanguage::go) abi.kind = CodeKind::go;
  if (!strings) return abi;
  switch (planned_strings_ ? *planned_strings_ : (*reader)->string_layout()) {
  case StringLayout::libstdcxx:
    abi.strings = READ_LIBSTDCXX_STRING;
    break;
  case StringLayout::libcxx:
    abi.strings = READ_LIBCXX_STRING;
    break;
  case StringLayout::unknown:
    break;
  }
  return abi;
}

} // namespace uprobectl
