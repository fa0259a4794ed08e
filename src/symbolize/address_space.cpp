// SPDX-License-Identifier: Apache-2.0
#include "process/mapping_kind.hpp"
#include "uprobectl/symbolize.hpp"

#include <algorithm>

namespace uprobectl::symbolize {

namespace {

constexpr unsigned max_address_bits = 52; // of user space, arm64

// Returns the distance in bytes: 0 inside the segment, 1 for the byte directly before or after it.
std::uint64_t distance_to(const elf::Segment& segment, ImageOffset offset) {
  if (offset < segment.offset) return segment.offset.value - offset.value;
  const std::uint64_t inside = offset.value - segment.offset.value;
  return inside < segment.file_size ? 0 : inside - segment.file_size + 1;
}

// Returns the executable segment that contains the byte, or else the nearest one. Loaders round
// mappings to pages and may make parts of a segment writable, so that mappings and segments do not
// correspond one to one.
const elf::Segment* nearest_segment(const elf::Image& image, ImageOffset offset) {
  const elf::Segment* best = nullptr;
  std::uint64_t least = 0; // distance of the best one
  for (const elf::Segment& segment : image.segments()) {
    if (!segment.executable) continue;
    const std::uint64_t distance = distance_to(segment, offset);
    if (best != nullptr && distance >= least) continue;
    best = &segment;
    least = distance;
  }
  return best;
}

// Whether the offset is in the module's image: one mapping of an archive may have several images. A
// module without an image contains all offsets.
bool contains(const Module& module, FileOffset offset) {
  return module.image() == nullptr ||
         slice(module.image()->bytes(), offset.value - module.image_begin().value, 1);
}

// Guesses the ELF address in a file that cannot be read. Programs linked to a fixed address are
// mapped at low addresses (lld: 0x200000, GNU ld: 0x400000), which the kernel does not choose:
// there the run-time address is the ELF address. In other files it mostly equals the file offset.
VirtualAddress guess_address(std::uint64_t pc, const process::Mapping& mapping,
                             ImageOffset offset) {
  constexpr std::uint64_t lowest_chosen_address = 0x10000000;
  return {mapping.start < lowest_chosen_address ? pc : offset.value};
}

} // namespace

AddressSpace::AddressSpace(std::vector<process::Mapping> mappings, ModuleCache& cache,
                           FileSource& files)
    : mappings_(std::move(mappings)), cache_(cache), files_(files) {
  std::ranges::sort(mappings_, {}, &process::Mapping::start);
  modules_.resize(mappings_.size());
  translated_.resize(mappings_.size());
  for (process::Mapping& mapping : mappings_) {
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
  const auto after = std::ranges::upper_bound(mappings_, pc, {}, &process::Mapping::start);
  if (after == mappings_.begin()) return nullptr;
  const auto number = static_cast<std::size_t>(after - mappings_.begin()) - 1;
  if (pc >= mappings_[number].end || !mappings_[number].executable) return nullptr;
  TranslatedRange& known = translated_[number];
  if (pc < known.begin || pc >= known.end) known = translate_around(number, pc);
  last_ = number;
  return &known;
}

AddressSpace::TranslatedRange AddressSpace::translate_around(std::size_t number, std::uint64_t pc) {
  const process::Mapping& mapping = mappings_[number];
  const std::string_view name = cache_.intern(mapping.path);
  TranslatedRange whole{.begin = mapping.start, .end = mapping.end, .mapping = name};
  // Without an image, address and offset are 0 for every pc.
  TranslatedRange here{
      .begin = pc, .end = pc + 1, .address_delta = -pc, .offset_delta = -pc, .mapping = name};
  if (is_anonymous(mapping)) return here;
  const FileOffset offset{pc - mapping.start + mapping.offset.value};
  Module*& module = modules_[number];
  if (module == nullptr || !contains(*module, offset))
    module = cache_.module_at(mapping, offset, std::span(mappings_).first(number), files_);
  // Code that was compiled at run time: the memory has a name, but holds no ELF image.
  if (module->image() == nullptr && is_named_memory(mapping)) return here;
  const ImageOffset in_image{offset.value - module->image_begin().value};
  here.module = whole.module = module;
  here.offset_delta = whole.offset_delta = in_image.value - pc;
  if (module->image() == nullptr) {
    here.address_delta = guess_address(pc, mapping, in_image).value - pc;
    return here;
  }
  const elf::Segment* const segment = nearest_segment(*module->image(), in_image);
  here.address_delta = whole.address_delta =
      (segment != nullptr ? segment->address.value - segment->offset.value : 0) + in_image.value -
      pc;
  if (segment == nullptr || distance_to(*segment, in_image) != 0) return here;
  // The range ends with the segment.
  const std::uint64_t before = in_image.value - segment->offset.value;
  const std::uint64_t rest = segment->file_size - before;
  if (pc - mapping.start > before) whole.begin = pc - before;
  if (mapping.end - pc > rest) whole.end = pc + rest;
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
