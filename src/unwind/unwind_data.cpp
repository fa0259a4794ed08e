// SPDX-License-Identifier: Apache-2.0
#include "unwind/unwind_data.hpp"

#include "elf/debug_file.hpp"
#include "elf/sections.hpp"
#include "elf/xz.hpp"
#include "insn/code_forms.hpp"

#include <atomic>

namespace uprobectl::unwind {

namespace {

// Bytes; large Go programs have about 10 MB.
constexpr std::uint64_t max_debug_frame = std::uint64_t{128} << 20;
// Bytes of all files together; the traced processes determine which files are read.
constexpr std::uint64_t max_inflated = std::uint64_t{512} << 20;

// Owns decompressed bytes; their sizes are added to `total` during its lifetime.
class InflatedBytes {
public:
  InflatedBytes(std::shared_ptr<const void> owner, std::uint64_t size)
      : owner_(std::move(owner)), size_(size) {
    total += size_;
  }
  InflatedBytes(const InflatedBytes&) = delete;
  InflatedBytes& operator=(const InflatedBytes&) = delete;
  ~InflatedBytes() { total -= size_; }

  static inline std::atomic<std::uint64_t> total = 0; // bytes

private:
  std::shared_ptr<const void> owner_;
  std::uint64_t size_;
};

// Makes a finder over the whole segment that contains the frames. Entries refer to each other by
// distance, so the bounds of the section need not be exact.
std::optional<FrameFinder> finder_in(const elf::Layout& layout, const elf::AddressRange& frames,
                                     bool is_end_known, const std::optional<FrameHeader>& header) {
  const elf::Segment* const segment = elf::find_segment(layout, frames.address);
  if (segment == nullptr) return std::nullopt;
  const auto bytes = slice(layout.bytes, segment->offset.value, segment->file_size);
  if (!bytes) return std::nullopt;
  const std::uint64_t begin = frames.address.value - segment->address.value;
  const std::uint64_t size = std::min(frames.size, bytes->size() - begin);
  return FrameFinder({FrameSection::Kind::eh_frame, *bytes, segment->address},
                     {begin, begin + size}, is_end_known, header);
}

// Makes a finder for the .eh_frame that .eh_frame_hdr locates, and another if the section headers
// locate it elsewhere.
std::vector<FrameFinder> eh_frames_of(const elf::Layout& layout) {
  std::optional<FrameHeader> header;
  if (layout.frame_table) {
    const VirtualAddress at = layout.frame_table->address;
    if (const auto bytes = elf::bytes_from(layout, at)) header = read_frame_header(*bytes, at);
  }
  const auto section = elf::find_section(layout, ".eh_frame");
  std::vector<FrameFinder> finders;
  const auto add = [&](std::optional<FrameFinder> finder) {
    if (finder) finders.push_back(std::move(*finder));
  };
  if (header && (!section || section->address.value != header->frames))
    add(finder_in(layout, {{header->frames}, ~std::uint64_t{0}}, false, header));
  if (section) add(finder_in(layout, {section->address, section->bytes.size()}, true, header));
  return finders;
}

} // namespace

UnwindData::UnwindData(const elf::Image& image, Arch arch, elf::DebugSearch where)
    : image_(image), where_(std::move(where)), arch_(arch), unwind_(*arch_info(arch).unwind) {}

// `owner`: of the file's bytes, unless the image has them. An invalid section is ignored: another
// source may cover the address.
void UnwindData::add_debug_frame(const elf::Layout& layout, std::shared_ptr<const void> owner) {
  const auto section = elf::section_content(layout, ".debug_frame", max_debug_frame);
  if (!section || !*section) return;
  const Bytes bytes = (*section)->bytes;
  if ((*section)->owner) {
    owner = std::make_shared<const InflatedBytes>((*section)->owner, bytes.size());
    if (InflatedBytes::total > max_inflated) return;
  }
  sources_.push_back(
      {std::make_unique<FrameFinder>(FrameSection{FrameSection::Kind::debug_frame, bytes, {}},
                                     Extent{0, bytes.size()}, true),
       std::move(owner)});
}

// Returns false if there is no further source.
bool UnwindData::add_next_source() {
  const auto layout = elf::read_layout(image_.bytes());
  if (!layout) return false;
  switch (searched_sources_++) {
  case 0:
    for (FrameFinder& finder : eh_frames_of(*layout))
      sources_.push_back({std::make_unique<FrameFinder>(std::move(finder)), nullptr});
    return true;
  case 1:
    add_debug_frame(*layout, nullptr);
    return true;
  case 2: {
    const auto compressed = elf::section_bytes(*layout, ".gnu_debugdata");
    if (!compressed) return true;
    auto content = elf::decode_xz(*compressed);
    if (!content) return true;
    const auto owner = std::make_shared<const std::vector<std::byte>>(std::move(*content));
    const auto inner = elf::read_sections_only(*owner);
    if (!inner || !(inner->machine == layout->machine)) return true;
    add_debug_frame(*inner, owner);
    return true;
  }
  // Its .eh_frame has no bytes, but strip moves .debug_frame there.
  case 3: {
    const auto file = elf::find_debug_file(image_, where_);
    if (!file) return true;
    const auto separate = elf::read_sections_only(file->bytes);
    if (separate && separate->machine == layout->machine) add_debug_frame(*separate, file->owner);
    return true;
  }
  default:
    return false;
  }
}

bool UnwindData::has_code(VirtualAddress at, std::string_view code) const {
  const auto offset = image_.to_image(at);
  const auto bytes = offset ? slice(image_.bytes(), offset->value, code.size()) : std::nullopt;
  return bytes && as_text(*bytes) == code;
}

bool UnwindData::is_after_system_call(VirtualAddress pc) const {
  const std::string_view code = unwind_.system_call;
  return has_code({pc.value - code.size()}, code);
}

bool UnwindData::is_signal_trampoline(VirtualAddress pc) const {
  return has_code(pc, unwind_.signal_trampoline);
}

std::optional<std::uint8_t> UnwindData::return_at(VirtualAddress pc) const {
  const auto offset = image_.to_image(pc);
  if (!offset || offset->value > image_.bytes().size()) return std::nullopt;
  return insn::return_register_at(arch_, image_.bytes().subspan(offset->value));
}

std::optional<Step> UnwindData::find_in(Source& source, VirtualAddress address) const {
  const auto entry = source.finder->find(address.value);
  if (!entry) return std::nullopt;
  Step step;
  const auto row = row_at(source.finder->section(), entry->cie, entry->fde, address.value);
  step.kind = row ? Step::Kind::row : Step::Kind::corrupt;
  if (!row) return step;
  step.cfa = row->cfa;
  step.return_register = row->return_register;
  step.signal_frame = row->signal_frame;
  step.return_rule = row->rules[row->return_register];
  for (std::uint8_t number = 0; number < Registers::count; ++number)
    if (row->rules[number].kind != Rule::Kind::unspecified)
      step.rules.push_back({number, row->rules[number]});
  step.section = &source.finder->section();
  return step;
}

Step UnwindData::find(VirtualAddress pc, VirtualAddress address) {
  Step step;
  if (is_signal_trampoline(pc)) {
    step.kind = Step::Kind::signal_frame;
    return step;
  }
  for (std::size_t i = 0; i < sources_.size() || add_next_source();) {
    if (i == sources_.size()) continue; // the source does not exist
    if (const auto found = find_in(sources_[i++], address)) {
      if (found->kind == Step::Kind::row) return *found;
      step = *found; // another source may be valid
    }
  }
  return step;
}

const Step& UnwindData::step(VirtualAddress pc, VirtualAddress address) {
  CachedStep* here = steps_.find(address.value);
  if (here == nullptr) here = &steps_.put(address.value, {});
  if (!here->step || here->pc != pc.value) {
    Step found = find(pc, address);
    found.return_operand = return_at(pc);
    *here = {pc.value, std::make_unique<const Step>(std::move(found))};
  }
  return *here->step;
}

std::optional<bool> UnwindData::has_return_address(VirtualAddress pc) {
  const Step& here = step(pc, pc);
  if (here.kind == Step::Kind::signal_frame || here.signal_frame) return false;
  if (here.kind != Step::Kind::row || here.cfa.kind != CfaRule::Kind::register_offset)
    return std::nullopt;
  if (unwind_.link_register != no_register)
    return here.return_register == unwind_.link_register &&
           (here.return_rule.kind == Rule::Kind::unspecified ||
            here.return_rule.kind == Rule::Kind::same_value);
  return here.cfa.base_register == unwind_.stack_pointer &&
         here.return_rule.kind == Rule::Kind::offset &&
         here.cfa.value + here.return_rule.value == 0;
}

UnwindData* find_unwind_data(Module& module, Arch arch) {
  const UnwindData* const known = module.unwind_data.get();
  if (known == nullptr &&
      (module.image() == nullptr || unwound_arch(module.image()->machine()) != arch))
    return nullptr;
  if (known != nullptr && known->arch() != arch) return nullptr;
  const elf::Image* const image = module.intact_image();
  if (image == nullptr) return nullptr;
  if (known == nullptr)
    module.unwind_data = std::make_shared<UnwindData>(*image, arch, module.debug_search());
  return module.unwind_data.get();
}

} // namespace uprobectl::unwind
