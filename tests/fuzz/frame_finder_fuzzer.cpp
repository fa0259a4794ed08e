// SPDX-License-Identifier: Apache-2.0
// Call frame information. The first byte says which section it is and whether its end is known;
// then 8 bytes of an address and 2 of the size of an .eh_frame_hdr, little-endian; that header; the
// entries.
#include "unwind/cfi.hpp"

#include <cstdlib>

using namespace uprobectl;

int fuzz_frame_finder(const std::uint8_t* data, std::size_t size) {
  using namespace uprobectl::unwind;
  constexpr std::size_t head = 11;
  if (size < head) return 0;
  const Bytes all = std::as_bytes(std::span(data, size));
  const std::uint64_t address = *read_at<std::uint64_t>(all, 1);
  const std::size_t header_size =
      std::min<std::size_t>(*read_at<std::uint16_t>(all, 9), size - head);
  const Bytes entries = all.subspan(head + header_size);

  constexpr std::uint64_t section_at = 0x4000;
  const bool eh_frame = (data[0] & 1U) == 0;
  const FrameSection section{eh_frame ? FrameSection::Kind::eh_frame
                                      : FrameSection::Kind::debug_frame,
                             entries,
                             {eh_frame ? section_at : 0}};
  auto header = read_frame_header(all.subspan(head, header_size), {0x3000});
  if (header && header->table.size() > header_size) std::abort();
  FrameFinder with_header(section, {0, entries.size()}, (data[0] & 2U) != 0, header);
  FrameFinder without(section, {0, entries.size()}, (data[0] & 2U) != 0);
  for (FrameFinder* const finder : {&with_header, &without}) {
    const auto found = finder->find(address);
    if (!found) continue;
    if (!found->fde.covers(address)) std::abort();
    const auto row = row_at(section, found->cie, found->fde, address);
    if (!row) continue;
    if (row->return_register >= Registers::count || row->cfa.base_register >= Registers::count)
      std::abort();
    for (const Rule& rule : row->rules)
      if (rule.kind == Rule::Kind::val_expression || rule.kind == Rule::Kind::expression)
        if (const auto extent = expression_at(section, rule.value))
          if (extent->begin > extent->end || extent->end > entries.size()) std::abort();
  }
  return 0;
}
