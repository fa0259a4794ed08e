#include "elf/inlined.hpp"

#include "elf/debug_search.hpp"
#include "elf/inlined_places.hpp"
#include "elf/sections.hpp"

namespace uprobectl::elf {

namespace {

Result<std::vector<std::optional<std::uint64_t>>>
count_in(const Layout& layout, std::span<const std::string_view> names) {
  std::vector<SectionContent> contents; // own what was inflated
  DwarfSections dwarf{.order = layout.machine.order};
  const std::pair<std::string_view, Bytes*> all[] = {{".debug_info", &dwarf.info},
                                                     {".debug_abbrev", &dwarf.abbrev},
                                                     {".debug_str", &dwarf.str},
                                                     {".debug_line_str", &dwarf.line_str},
                                                     {".debug_str_offsets", &dwarf.str_offsets}};
  for (const auto& [name, bytes] : all) {
    auto content = section_content(layout, name, most_debug_info);
    if (!content) return fail(std::move(content).error());
    if (!*content) continue;
    *bytes = (*content)->bytes;
    contents.push_back(std::move(**content));
  }
  if (dwarf.info.empty()) return fail(ErrorKind::not_found, "there is no .debug_info");
  return count_inlined_places(dwarf, names);
}

} // namespace

Result<std::vector<std::optional<std::uint64_t>>>
count_inlined(const Image& image, const DebugSearch& where,
              std::span<const std::string_view> names) {
  const auto layout = read_sections_only(image.bytes());
  if (!layout) return fail(layout.error());
  auto own = count_in(*layout, names);
  if (own || own.error().kind != ErrorKind::not_found) return own;
  const auto file = find_debug_file(image, where);
  if (!file) return own;
  const auto debug_layout = read_sections_only(file->bytes);
  if (!debug_layout) return fail(debug_layout.error());
  return count_in(*debug_layout, names);
}

} // namespace uprobectl::elf
