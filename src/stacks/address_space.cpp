#include "uprobectl/stacks/modules.hpp"

#include <algorithm>
#include <bit>

namespace uprobectl::stacks {

namespace {

// "[heap]", "[anon:…]", "//anon", an empty name: memory of no file. The kernel's own code, [vdso],
// is an ELF image that a source of files may have.
bool is_of_no_file(const Mapping& mapping) {
  const std::string_view path = mapping.path;
  return path.empty() || path.starts_with("//") || (path.starts_with('[') && path != "[vdso]");
}

// 0 for a byte of the segment, 1 for the next one before or behind it.
std::uint64_t distance_to(const elf::Segment& segment, ImageOffset offset) {
  if (offset < segment.offset) return segment.offset.value - offset.value;
  const std::uint64_t inside = offset.value - segment.offset.value;
  return inside < segment.file_size ? 0 : inside - segment.file_size + 1;
}

// The ELF address of a byte of an image that is mapped executable: that of the executable segment
// it belongs to, or of the nearest one. What a loader maps is rounded to pages, and parts of a
// segment may have been made writable, so mappings and segments do not match one to one.
VirtualAddress address_of(const elf::Image& image, ImageOffset offset) {
  const elf::Segment* best = nullptr;
  std::uint64_t least = 0; // bytes between the offset and the best one
  for (const elf::Segment& segment : image.segments()) {
    if (!segment.executable) continue;
    const std::uint64_t distance = distance_to(segment, offset);
    if (best != nullptr && distance >= least) continue;
    best = &segment;
    least = distance;
  }
  if (best == nullptr) return {offset.value};
  return {best->address.value + (offset.value - best->offset.value)};
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
}

std::optional<Place> AddressSpace::find(std::uint64_t pc) {
  const auto has = [&](std::size_t number) {
    return pc >= mappings_[number].start && pc < mappings_[number].end;
  };
  std::size_t number = last_;
  if (number >= mappings_.size() || !has(number)) {
    const auto after = std::ranges::upper_bound(mappings_, pc, {}, &Mapping::start);
    if (after == mappings_.begin()) return std::nullopt;
    number = static_cast<std::size_t>(after - mappings_.begin()) - 1;
    if (!has(number)) return std::nullopt;
    last_ = number;
  }
  const Mapping& mapping = mappings_[number];
  if (!mapping.executable) return std::nullopt;
  Place place;
  place.mapping = mapping.path;
  if (is_of_no_file(mapping)) return place;
  const FileOffset offset{pc - mapping.start + mapping.offset.value};
  Module*& module = modules_[number];
  if (module == nullptr || !is_of(*module, offset))
    module = cache_.module_at(mapping, offset, std::span(mappings_).first(number), files_);
  place.module = module;
  place.offset = {offset.value - module->begin().value};
  place.address = module->image() != nullptr ? address_of(*module->image(), place.offset)
                                             : likely_address(pc, mapping, place.offset);
  return place;
}

std::uint64_t AddressSpace::code_mask(Isa isa) const {
  if (isa != Isa::arm64) return ~std::uint64_t{0};
  // Stacks and libraries lie just below the end of user space, so the highest address has as many
  // bits as there are (Linux Documentation/arch/arm64/memory.rst); signatures begin above.
  constexpr unsigned sizes[] = {39, 42, 47, 48, 52};
  unsigned bits = 0;
  for (const Mapping& mapping : mappings_)
    if (mapping.end > 0 && mapping.end - 1 < std::uint64_t{1} << 52)
      bits = std::max(bits, static_cast<unsigned>(std::bit_width(mapping.end - 1)));
  for (const unsigned size : sizes)
    if (bits <= size) return (std::uint64_t{1} << size) - 1;
  return (std::uint64_t{1} << 52) - 1;
}

} // namespace uprobectl::stacks
