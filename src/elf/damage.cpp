#include "uprobectl/elf/damage.hpp"

#include "elf/layout.hpp"
#include "elf/structures.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl::elf {

namespace {

// The end of the last segment, as the program headers have it. Zero if they cannot be read.
std::uint64_t end_of_segments(const Layout& layout) {
  std::uint64_t end = 0;
  for (std::uint64_t i = 0; i < layout.header.program_header_count; ++i) {
    const auto header = read_program_header(
        layout.bytes, layout.header.program_headers + i * program_header_size(layout.machine),
        layout.machine);
    if (!header || header->type != raw::PT_LOAD) continue;
    end = std::max(end, checked_add(header->offset, header->file_size).value_or(UINT64_MAX));
  }
  return end;
}

} // namespace

std::vector<std::string> symbol_damage(const Image& image) {
  std::vector<std::string> damage;
  const auto dynamic = image.dynamic_symbols();
  const auto full = image.full_symbols();
  if (!full && dynamic && dynamic->size() > 0)
    damage.push_back(full.error().message + ": only exported functions are known");
  const auto layout = read_layout(image.bytes());
  if (layout && layout->truncated)
    damage.push_back(fmt::format("the file is truncated: it has {} bytes, its segments have {}; "
                                 "functions in the missing part cannot be probed",
                                 image.bytes().size(), end_of_segments(*layout)));
  return damage;
}

} // namespace uprobectl::elf
