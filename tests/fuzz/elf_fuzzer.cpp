// SPDX-License-Identifier: Apache-2.0
// Reads every table of an ELF image of arbitrary bytes.
#include "elf/prefetch.hpp"
#include "uprobectl/elf.hpp"

#include <array>
#include <cstdlib>

using namespace uprobectl;

namespace {

// A name must lie inside the image: reading its last byte shows where it does not.
void check_names(const elf::Image& image, const elf::SymbolTable& table) {
  std::size_t total = 0;
  for (std::uint32_t index = 0; index < table.size(); ++index) {
    const auto symbol = table.at(index);
    if (!symbol) continue;
    total += symbol->name.size() + (symbol->version ? symbol->version->name.size() : 0);
    if (!table.has_name(index, symbol->name)) std::abort();
    const auto offset = image.to_image(symbol->address);
    if (offset && offset->value >= image.bytes().size()) std::abort();
  }
  if (total > 0 && image.bytes().empty()) std::abort();
}

} // namespace

int fuzz_elf(const std::uint8_t* data, std::size_t size) {
  const auto image = elf::Image::parse({reinterpret_cast<const std::byte*>(data), size});
  if (!image) return 0;
  if (const auto table = image->dynamic_symbols()) check_names(*image, *table);
  if (const auto table = image->full_symbols()) check_names(*image, *table);
  constexpr std::array<std::string_view, 4> names = {"f", "malloc", "main", "JNI_OnLoad"};
  elf::Prefetch::dynamic(*image, names);
  for (const std::string_view name : names) {
    const auto found = image->find_dynamic(name);
    if (!found) continue;
    for (const elf::Symbol& symbol : *found)
      if (symbol.name != name) std::abort();
  }
  (void)image->needed_libraries();
  (void)image->plt_sections();
  (void)image->import_slots();
  (void)image->build_id();
  for (const elf::Segment& segment : image->segments()) (void)image->to_address(segment.offset);
  return 0;
}
