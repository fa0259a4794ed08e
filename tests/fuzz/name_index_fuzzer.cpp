// SPDX-License-Identifier: Apache-2.0
// Debug data with an index of names. First six sizes of two bytes, little-endian, of .debug_names,
// .debug_abbrev, .debug_str, .debug_str_offsets, .debug_addr and .debug_rnglists; then these
// sections; the rest is .debug_info. What the index leads to must be found without it, too.
#include "debug_sections.hpp"
#include "dwarf/globals.hpp"
#include "dwarf/inlined.hpp"
#include "dwarf/typedefs.hpp"

#include <algorithm>
#include <cstdlib>
#include <set>

using namespace uprobectl;

namespace {

using Entries = std::multiset<std::pair<std::string, std::uint64_t>>;

Entries entries_in(const dwarf::DebugInfo& debug) {
  Entries entries;
  const auto functions = dwarf::find_inlined(debug, [](std::string_view) { return true; });
  if (!functions) std::abort();
  for (const dwarf::InlinedFunction& function : *functions)
    for (const dwarf::InlinedInstance& instance : function.instances)
      entries.emplace(function.name, instance.entry.value);
  return entries;
}

} // namespace

int fuzz_name_index(const std::uint8_t* data, std::size_t size) {
  constexpr std::string_view names[] = {".debug_names",       ".debug_abbrev", ".debug_str",
                                        ".debug_str_offsets", ".debug_addr",   ".debug_rnglists"};
  constexpr std::size_t head = 2 * std::size(names);
  if (size < head) return 0;
  const Bytes sizes = std::as_bytes(std::span(data, head));
  Bytes rest = std::as_bytes(std::span(data + head, size - head));
  std::vector<fuzz::DebugSection> sections;
  for (std::size_t i = 0; i < std::size(names); ++i) {
    const std::size_t wanted = *read_at<std::uint16_t>(sizes, 2 * i);
    sections.push_back({names[i], rest.first(std::min(wanted, rest.size()))});
    rest = rest.subspan(sections.back().content.size());
  }
  sections.push_back({".debug_info", rest});
  const std::string with_index = fuzz::debug_image(sections, ByteOrder::little);
  const std::string without = fuzz::debug_image(std::span(sections).subspan(1), ByteOrder::little);
  const auto indexed = dwarf::DebugInfo::parse(std::as_bytes(std::span(with_index)));
  const auto scanned = dwarf::DebugInfo::parse(std::as_bytes(std::span(without)));
  if (!indexed || !scanned) std::abort();
  const Entries found = entries_in(*indexed);
  const Entries all = entries_in(*scanned);
  // The scan stops at damaged units; the index may lead beyond the damage.
  if (scanned->warnings().empty() && !std::ranges::includes(all, found)) std::abort();
  (void)dwarf::find_global(*indexed, {.names = {"total"}});
  const std::vector<std::string> types = {"Num", "ns::Num"};
  (void)dwarf::find_typedefs(*indexed, types);
  return 0;
}
