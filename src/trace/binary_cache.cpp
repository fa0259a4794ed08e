// SPDX-License-Identifier: Apache-2.0
#include "trace/binary_cache.hpp"

#include "resolve/code_index.hpp"
#include "uprobectl/symbols.hpp"

namespace uprobectl::trace {

Result<const resolve::FunctionReader*> TracedBinary::functions() {
  if (!functions_) {
    functions_ = resolve::FunctionReader::open(probed_, where_.paths);
    if (*functions_ && probed_->machine.is_64bit)
      (*functions_)->use_frames([this](const elf::Image&, VirtualAddress at) {
        return find_frame(at);
      });
  }
  if (!*functions_) return fail(functions_->error());
  return &**functions_;
}

Result<binary::Binary*> TracedBinary::file() {
  const auto reader = functions();
  return reader ? Result<binary::Binary*>(&(*reader)->file()) : fail(reader.error());
}

Result<const elf::Image*> TracedBinary::image() {
  const auto opened = file();
  return opened ? Result<const elf::Image*>(&(*opened)->image()) : fail(opened.error());
}

Result<const dwarf::DebugInfo*> TracedBinary::debug_info() {
  const auto opened = file();
  if (!opened) return fail(opened.error());
  const auto& info = (*opened)->debug_info();
  return info ? Result<const dwarf::DebugInfo*>(&*info) : fail(info.error());
}

unwind::UnwindData* TracedBinary::frames() {
  if (frames_) return &*frames_;
  const auto opened = file();
  if (!opened) return nullptr;
  const elf::Image& image = (*opened)->image();
  const auto arch = unwind::unwound_arch(image.machine());
  return arch ? &frames_.emplace(image, *arch, (*opened)->debug_search()) : nullptr;
}

// Returns nullopt if the function has no frame: at the first instruction, and after the epilogue,
// the CFA is right above the return address; on arm64 the return address is in the link register.
std::optional<resolve::StackFrame> TracedBinary::find_frame(VirtualAddress at) {
  using Kind = unwind::Rule::Kind;
  unwind::UnwindData* const frames = this->frames();
  if (frames == nullptr) return std::nullopt;
  const UnwindInfo& unwind = *arch_info(frames->arch()).unwind;
  const unwind::Step& step = frames->step(at, at);
  if (step.kind != unwind::Step::Kind::row ||
      step.cfa.kind != unwind::CfaRule::Kind::register_offset ||
      step.return_rule.kind != Kind::offset)
    return std::nullopt;
  const std::int32_t distance = step.cfa.value - (unwind.link_register == no_register ? 8 : 0);
  if (distance < 0 || (distance == 0 && step.cfa.base_register == unwind.stack_pointer))
    return std::nullopt;
  return resolve::StackFrame{.base = step.cfa.base_register,
                             .distance = static_cast<std::uint64_t>(distance)};
}

std::optional<bool> TracedBinary::has_return_address(const resolve::ProbePoint& point) {
  unwind::UnwindData* const frames = this->frames();
  if (frames == nullptr || frames->arch() != host_arch) return std::nullopt;
  const auto known = frames->has_return_address(uprobe_address(point));
  if (known || !point.static_probe) return known;
  const auto function = (*file())->symbol_at(point.address);
  return function && function->offset == 0 && function->symbol.size > 0 &&
         !symbols::is_cold_part(function->symbol.name);
}

Bytes TracedBinary::code_at(const resolve::ProbePoint& point) {
  const auto image = this->image();
  return image ? resolve::code_bytes(**image, uprobe_address(point), insn::max_instruction_size)
               : Bytes{};
}

Result<resolve::FunctionReturns> TracedBinary::returns(const resolve::ProbePoint& point) {
  if (const auto planned = planned_returns_.find(point.address); planned != planned_returns_.end())
    return planned->second;
  const auto reader = functions();
  return reader ? (*reader)->returns(point) : fail(reader.error());
}

void TracedBinary::set_returns(const resolve::ProbePoint& point, resolve::FunctionReturns returns) {
  planned_returns_.insert_or_assign(point.address, std::move(returns));
}

void TracedBinary::set_values(const resolve::ProbePoint& point,
                              std::shared_ptr<const plans::PlannedValues> values,
                              std::shared_ptr<const dwarf::DescribedTypes> types) {
  planned_values_.insert_or_assign(
      key_of(point),
      Values{.values = std::move(values), .types = std::move(types), .call = point.inlined_into});
}

const plans::PlannedValues* TracedBinary::values(const resolve::ProbePoint& point) const {
  if (planned_values_.empty()) return nullptr;
  const auto found = planned_values_.find(key_of(point));
  return found == planned_values_.end() ? nullptr : found->second.values.get();
}

events::CodeAbi TracedBinary::code_abi(const resolve::ProbePoint& point, bool strings) {
  events::CodeAbi abi;
  if (!probed_->machine.is_64bit) abi.kind = events::CodeKind::native_32;
  const auto reader = functions();
  if (!reader) return abi;
  if ((*reader)->language_of(point) == resolve::CodeLanguage::go) abi.kind = events::CodeKind::go;
  if (!strings) return abi;
  switch (planned_strings_ ? *planned_strings_ : (*reader)->string_layout()) {
  case resolve::StringLayout::libstdcxx:
    abi.strings = READ_LIBSTDCXX_STRING;
    break;
  case resolve::StringLayout::libcxx:
    abi.strings = READ_LIBCXX_STRING;
    break;
  case resolve::StringLayout::unknown:
    break;
  }
  return abi;
}

} // namespace uprobectl::trace
