#include "unwind/frame_finder.hpp"

#include <algorithm>

namespace uprobectl::stacks {

namespace {

// Of an encoded pointer whose size is the same in every row; nothing for others.
std::optional<unsigned> fixed_size(std::uint8_t encoding) {
  switch (encoding & 0x0fU) {
  case 0x00: // absptr
  case 0x04: // udata8
  case 0x0c: // sdata8
    return 8;
  case 0x03: // udata4
  case 0x0b: // sdata4
    return 4;
  default:
    return std::nullopt;
  }
}

} // namespace

std::optional<FrameHeader> read_frame_header(Bytes bytes, VirtualAddress address) {
  elf::DwarfCursor cursor(bytes, ByteOrder::little);
  const auto version = cursor.number(1);
  const auto frames_encoding = static_cast<std::uint8_t>(cursor.number(1));
  const auto count_encoding = static_cast<std::uint8_t>(cursor.number(1));
  const auto encoding = static_cast<std::uint8_t>(cursor.number(1));
  const auto frames = read_pointer(cursor, frames_encoding, address.value, address.value);
  if (version != 1 || !frames) return std::nullopt;
  FrameHeader header{
      .frames = *frames, .table = {}, .encoding = encoding, .address = address.value};
  const auto count = read_pointer(cursor, count_encoding, address.value, address.value);
  const auto size = fixed_size(encoding);
  // The linkers write offsets from the table's begin or addresses, and nothing else.
  const bool known = (encoding & 0xf0U) == 0x30 || (encoding & 0xf0U) == 0;
  if (!count || !size || !known) return header;
  header.pointer_size = *size;
  const std::uint64_t row = std::uint64_t{2} * *size;
  const std::uint64_t most = (bytes.size() - cursor.at()) / row; // what is cut off has no rows
  header.table = bytes.subspan(cursor.at(), std::min(*count, most) * row);
  return header;
}

std::optional<std::uint64_t> look_up(const FrameHeader& header, std::uint64_t address) {
  const auto field = [&](std::uint64_t number) {
    elf::DwarfCursor cursor(header.table, ByteOrder::little);
    cursor.seek(number * header.pointer_size);
    return read_pointer(cursor, header.encoding, 0, header.address).value_or(0);
  };
  std::uint64_t low = 0;
  std::uint64_t high = header.table.size() / (std::uint64_t{2} * header.pointer_size);
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (field(2 * middle) <= address)
      low = middle + 1;
    else
      high = middle;
  }
  if (low == 0) return std::nullopt;
  return field(2 * low - 1);
}

} // namespace uprobectl::stacks
