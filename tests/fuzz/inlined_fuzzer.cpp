// SPDX-License-Identifier: Apache-2.0
// Debug data for the counting of inlined places. First four sizes of two bytes, little-endian, of
// .debug_abbrev, .debug_str, .debug_line_str and .debug_str_offsets, and a byte whose lowest bit is
// set for big-endian data; then these sections; the rest is .debug_info. The first text in
// .debug_str is a name that is asked for.
#include "elf/inlined.hpp"

#include <cstdlib>

using namespace uprobectl;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
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
  elf::DwarfSections sections;
  sections.abbrev = take(0);
  sections.str = take(1);
  sections.line_str = take(2);
  sections.str_offsets = take(3);
  sections.info = rest;
  sections.order = (data[head - 1] & 1U) != 0 ? ByteOrder::big : ByteOrder::little;
  const std::string_view names[] = {c_string_at(sections.str, 0).value_or("f"), "f", "main"};
  const auto counts = elf::count_inlined_places(sections, names);
  if (counts.size() != std::size(names)) std::abort();
  // A copy takes two bytes at least: its abbreviation and its origin.
  for (const auto& count : counts)
    if (count && *count > sections.info.size() / 2) std::abort();
  if (names[0] == names[1] && counts[0] != counts[1]) std::abort();
  return 0;
}
