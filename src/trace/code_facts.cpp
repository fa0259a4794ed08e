#include "trace/code_facts.hpp"

#include "unwind/unwind_data.hpp"

namespace uprobectl {

CodeReaders::CodeReaders(std::vector<std::string> debug_places)
    : debug_places_(std::move(debug_places)) {}
CodeReaders::~CodeReaders() = default;

// Before the first instruction of a function and behind the last one that takes its frame down the
// caller's stack begins right above the return address, or on arm64 the link register is the
// caller's. A CFA by other registers is that of code that switches stacks.
bool CodeReaders::has_frame(const elf::Image& image, VirtualAddress at) {
  using Kind = stacks::Rule::Kind;
  const auto arch = stacks::unwound_arch(image.machine());
  if (!arch) return false;
  const UnwindInfo& unwind = *arch_info(*arch).unwind;
  auto& frames = frames_[&image];
  if (!frames) frames = std::make_unique<stacks::UnwindData>(image, *arch);
  const stacks::Step& step = frames->step(at, at);
  if (step.kind != stacks::Step::Kind::row || step.cfa.kind != Kind::val_offset) return false;
  const bool by_stack = step.cfa_register == unwind.stack_pointer;
  if (!by_stack && step.cfa_register != unwind.frame_pointer) return false;
  const std::int32_t pushed_by_call = unwind.link_register == no_register ? 8 : 0;
  return step.cfa.value > pushed_by_call && step.back.kind == Kind::offset;
}

Result<const FunctionReader*> CodeReaders::reader_of(const ProbePoint& point) {
  auto known = readers_.find(point.binary);
  if (known == readers_.end()) {
    known = readers_.emplace(point.binary, FunctionReader::open(point.binary, debug_places_)).first;
    if (known->second && point.binary->machine.is_64bit)
      known->second->use_frames(
          [this](const elf::Image& image, VirtualAddress at) { return has_frame(image, at); });
  }
  if (!known->second) return fail(known->second.error());
  return &*known->second;
}

CodeFacts CodeReaders::facts_of(const ProbePoint& point, bool strings) {
  CodeFacts facts;
  if (!point.binary->machine.is_64bit) facts.kind = CodeKind::native_32;
  const auto reader = reader_of(point);
  if (!reader) return facts;
  if ((*reader)->language_of(point) == CodeLanguage::go) facts.kind = CodeKind::go;
  if (!strings) return facts;
  switch ((*reader)->string_layout()) {
  case StringLayout::libstdcxx:
    facts.strings = READ_LIBSTDCXX_STRING;
    break;
  case StringLayout::libcxx:
    facts.strings = READ_LIBCXX_STRING;
    break;
  case StringLayout::unknown:
    break;
  }
  return facts;
}

} // namespace uprobectl
