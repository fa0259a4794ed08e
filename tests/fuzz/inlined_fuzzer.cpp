// SPDX-License-Identifier: Apache-2.0
// Debug data for the searches for inlined functions and typedefs. First four sizes of two bytes,
// little-endian, of .debug_abbrev, .debug_str, .debug_line_str and .debug_str_offsets, and a byte
// whose lowest bit is set for big-endian data; then these sections; the rest is .debug_info. The
// first text in .debug_str is a name that is asked for.
#include "debug_sections.hpp"
#include "dwarf/inlined.hpp"
#include "dwarf/typedefs.hpp"

#include <algorithm>
#include <cstdlib>

using namespace uprobectl;

int fuzz_inlined(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t head = 9;
  if (size < head) return 0;
  Bytes rest = std::as_bytes(std::span(data + head, size - head));
  const Bytes sizes = std::as_bytes(std::span(data, head));
  const auto take = [&](std::size_t number) {
    const std::size_t wanted = *read_at<std::uint16_t>(sizes, 2 * number);
    const Bytes section = rest.first(std::min(wanted, rest.size()));
    rest = rest.subspan(section.size());
    return section;
  };
  const Bytes abbreviations = take(0);
  const Bytes strings = take(1);
  const Bytes line_strings = take(2);
  const Bytes string_offsets = take(3);
  const ByteOrder order = (data[head - 1] & 1U) != 0 ? ByteOrder::big : ByteOrder::little;
  const fuzz::DebugSection sections[] = {{".debug_abbrev", abbreviations},
                                         {".debug_str", strings},
                                         {".debug_line_str", line_strings},
                                         {".debug_str_offsets", string_offsets},
                                         {".debug_info", rest}};
  const std::string image = fuzz::debug_image(sections, order);
  const auto debug = dwarf::DebugInfo::parse(std::as_bytes(std::span(image)));
  if (!debug) std::abort();
  const dwarf::CountedFunction counted[] = {
      {.name = c_string_at(strings, 0).value_or("f")}, {.name = "f"}, {.name = "main"}};
  const auto counts = dwarf::count_inlined(*debug, counted);
  if (!counts || counts->size() != std::size(counted)) std::abort();
  // A copy takes two bytes at least: its abbreviation and its origin.
  for (const auto& count : *counts)
    if (count && *count > rest.size() / 2) std::abort();
  if (counted[0].name == counted[1].name && (*counts)[0] != (*counts)[1]) std::abort();
  const auto functions = dwarf::find_inlined(*debug, [](std::string_view) { return true; });
  if (!functions) std::abort();
  std::size_t instances = 0;
  for (const dwarf::InlinedFunction& function : *functions) {
    if (function.instances.empty()) std::abort();
    instances += function.instances.size();
  }
  if (instances > rest.size() / 2) std::abort();
  const std::vector<std::string> types = {std::string(counted[0].name), "T", "ns::T"};
  for (const auto& [name, type] : dwarf::find_typedefs(*debug, types))
    if (std::ranges::find(types, name) == types.end() || type.empty()) std::abort();
  return 0;
}
