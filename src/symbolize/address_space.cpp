// SPDX-License-Identifier: Apache-2.0
#include "symbolize/mapping_kind.hpp"
#include "uprobectl/symbolize.hpp"

#include <algorithm>

namespace uprobectl::symbolize {

namespace {

constexpr unsigned max_address_bits = 52; // of user space, arm64

// 0 for a byte of the segment, 1 for the next one before or behind it.
std::uint64_t distance_to(const elf::Segment& segment, ImageOffset offset) {
  if (offset < segment.offset) return segment.offset.value - offset.value;
  const std::uint64_t inside = offset.value - segment.offset.value;
  return inside < segment.file_size ? 0 : inside - segment.file_size + 1;
}

// The executable segment that a byte of an image belongs to, or the nearest one. What a loader maps
// is rounded to pages, and parts of a segment may have been made writable, so mappings and segments
// do not match one to one.
const elf::Segment* segment_for(const elf::Image& image, ImageOffset offset) {
  const elf::Segment* best = nullptr;
  std::uint64_t least = 0; // bytes between the offset and the best one
  for (const elf::Segment& segment : image.segments()) {
    if (!segment.executable) continue;
    const std::uint64_t distance = distance_to(segment, offset);
    if (best != nullptr && distance >= least) continue;
    best = &segment;
    least = distance;
  }
  return best;
}

// An archive may be mapped in one piece with several images in it. What cannot be read has no end.
bool is_of(const Module& module, FileOffset offset) {
  return module.image() == nullptr ||
         slice(module.image()->bytes(), offset.value - module.begin().value, 1);
}

// Of a file that cannot be read. Programs that are linked to a fixed address lie far below where
// the kernel puts anything else (lld: 0x200000, GNU ld: 0x400000), so that addresses in them are
// what they are; else most files are linked to where they lie in the file.
VirtualAddress likely_address(std::uint64_t pc, const Mapping& mapping, ImageOffset offset) {
  constexpr std::uint64_t lowest_of_kernel = 0x10000000;
  return {mapping.start < lowest_of_kernel ? pc : offset.value};
}

} // namespace

AddressSpace::AddressSpace(std::vector<Mapping> mappings, ModuleCache& cache, FileSource& files)
    : mappings_(std::move(mappings)), cache_(cache), files_(files) {
  std::ranges::sort(mappings_, {}, &Mapping::start);
  modules_.resize(mappings_.size());
  translated_.resize(mappings_.size());
  for (Mapping& mapping : mappings_) {
    if (mapping.executable && is_anonymous(mapping)) mapping.path = anonymous_name(mapping);
    if (mapping.executable && mapping.path == "[uprobes]") {
      trampolines_begin_ = mapping.start;
      trampolines_end_ = mapping.end;
    }
    if (mapping.end > 0 && mapping.end - 1 < std::uint64_t{1} << max_address_bits)
      highest_ = std::max(highest_, mapping.end - 1);
  }
}

const AddressSpace::TranslatedRange* AddressSpace::search(std::uint64_t pc) {
  const auto after = std::ranges::upper_bound(mappings_, pc, {}, &Mapping::start);
  if (after == mappings_.begin()) return nullptr;
  const auto number = static_cast<std::size_t>(after - mappings_.begin()) - 1;
  if (pc >= mappings_[number].end || !mappings_[number].executable) return nullptr;
  TranslatedRange& known = translated_[number];
  if (pc < known.begin || pc >= known.end) known = translate_around(number, pc);
  last_ = number;
  return &known;
}

AddressSpace::TranslatedRange AddressSpace::translate_around(std::size_t number, std::uint64_t pc) {
  const Mapping& mapping = mappings_[number];
  const std::string_view name = cache_.intern(mapping.path);
  TranslatedRange whole{.begin = mapping.start, .end = mapping.end, .mapping = name};
  // Of no image the address is 0, whatever the pc.
  TranslatedRange here{
      .begin = pc, .end = pc + 1, .to_address = -pc, .to_offset = -pc, .mapping = name};
  if (is_anonymous(mapping)) return here;
  const FileOffset offset{pc - mapping.start + mapping.offset.value};
  Module*& module = modules_[number];
  if (module == nullptr || !is_of(*module, offset))
    module = cache_.module_at(mapping, offset, std::span(mappings_).first(number), files_);
  // What was compiled at run time: its memory has a name, but there is no ELF image in it.
  if (module->image() == nullptr && is_named_memory(mapping)) return here;
  const ImageOffset in_image{offset.value - module->begin().value};
  here.module = whole.module = module;
  here.to_offset = whole.to_offset = in_image.value - pc;
  if (module->image() == nullptr) {
    here.to_address = likely_address(pc, mapping, in_image).value - pc;
    return here;
  }
  const elf::Segment* const segment = segment_for(*module->image(), in_image);
  here.to_address = whole.to_address =
      (segment != nullptr ? segment->address.value - segment->offset.value : 0) + in_image.value -
      pc;
  if (segment == nullptr || distance_to(*segment, in_image) != 0) return here;
  // As far as the segment goes.
  const std::uint64_t before = in_image.value - segment->offset.value;
  const std::uint64_t behind = segment->file_size - before;
  if (pc - mapping.start > before) whole.begin = pc - before;
  if (mapping.end - pc > behind) whole.end = pc + behind;
  return whole;
}

std::optional<ModuleAddress> ModuleAddress::offset_by(std::uint64_t distance) const {
  if (module == nullptr || module->image() == nullptr) return std::nullopt;
  const VirtualAddress there{address.value + distance};
  const elf::Segment* const segment = module->image()->find_segment(there);
  const auto in_image = module->image()->to_image(there);
  if (segment == nullptr || !segment->executable || !in_image) return std::nullopt;
  return ModuleAddress(module, there, *in_image, mapping);
}

} // namespace uprobectl::symbolize
