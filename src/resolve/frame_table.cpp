// SPDX-License-Identifier: Apache-2.0
#include "resolve/frame_table.hpp"

#include "elf/dwarf_cursor.hpp"
#include "elf/sections.hpp"

#include <algorithm>
#include <set>

namespace uprobectl::resolve {

namespace {

constexpr std::uint64_t entry_size = 8; // bytes: where a piece begins and its description lies
constexpr std::uint64_t table_header_size = 12;

// DW_EH_PE_pcrel | sdata4, udata4, datarel | sdata4 (LSB core 10.5.1).
constexpr std::uint8_t frame_encoding = 0x1b;
constexpr std::uint8_t count_encoding = 0x03;
constexpr std::uint8_t table_encoding = 0x3b;

// Offsets in an FDE: length, distance to its CIE, start, size, the size of the augmentation data
// (ULEB128), the data, instructions.
constexpr std::uint64_t cie_field = 4;
constexpr std::uint64_t start_field = 8;
constexpr std::uint64_t size_field = 12;
constexpr std::uint64_t augmentation_field = 16;
constexpr std::uint64_t cie_augmentation_field = 9; // a string, after length, id and version

VirtualAddress relative(VirtualAddress base, std::uint32_t distance) {
  return {base.value + static_cast<std::uint64_t>(static_cast<std::int32_t>(distance))};
}

// Whether the unwind instructions describe a frame that is already set up at the start. For a
// function that is called, they first advance past the instructions that set it up.
bool begin_inside_frame(Bytes instructions) {
  for (const std::byte byte : instructions) {
    const auto opcode = std::to_integer<std::uint8_t>(byte);
    if (opcode == 0) continue;                   // DW_CFA_nop
    return (opcode >= 0x0c && opcode <= 0x0f) || // DW_CFA_def_cfa and three others
           (opcode & 0xc0U) == 0x80U ||          // DW_CFA_offset
           opcode == 0x2d;                       // DW_CFA_AARCH64_negate_ra_state
  }
  return false;
}

// The size of an encoded pointer (LSB core 10.5.1); nullopt if it varies.
std::optional<std::uint64_t> pointer_size(std::uint8_t encoding, const elf::Machine& machine) {
  switch (encoding & 0x0fU) {
  case 0x00:
    return machine.is_64bit ? 8 : 4;
  case 0x02:
  case 0x0a:
    return 2;
  case 0x03:
  case 0x0b:
    return 4;
  case 0x04:
  case 0x0c:
    return 8;
  default:
    return std::nullopt;
  }
}

// Whether the descriptions of this CIE have addresses in the usual encoding.
bool has_usual_addresses(Bytes cie, const elf::Machine& machine) {
  const auto letters = c_string_at(cie, cie_augmentation_field);
  if (!letters || !letters->starts_with('z')) return false;
  elf::DwarfCursor cursor(cie, machine.order);
  cursor.seek(cie_augmentation_field + letters->size() + 1);
  for (int i = 0; i < 4; ++i) cursor.skip_leb(); // alignments, return register, size of the data
  for (const char letter : letters->substr(1)) {
    if (letter == 'S' || letter == 'B' || letter == 'G') continue; // without data
    const auto encoding = static_cast<std::uint8_t>(cursor.number(1));
    if (letter == 'R') return !cursor.failed() && encoding == frame_encoding;
    if (letter == 'L') continue;
    const auto size = letter == 'P' ? pointer_size(encoding, machine) : std::nullopt;
    if (!size) return false;
    cursor.skip(*size);
  }
  return false;
}

} // namespace

FrameTable::FrameTable(const elf::Image& image) {
  auto layout = elf::read_layout(image.bytes());
  if (!layout) return;
  layout_ = std::move(*layout);
  if (layout_.frame_table)
    read_header();
  else
    list_descriptions();
}

void FrameTable::read_header() {
  header_ = layout_.frame_table->address;
  const Bytes header = bytes_from(header_);
  const auto form = slice(header, 0, 4);
  const auto count = read_at<std::uint32_t>(header, 8, layout_.machine.order);
  if (!form || !count || (*form)[0] != std::byte{1} || (*form)[1] != std::byte{frame_encoding} ||
      (*form)[2] != std::byte{count_encoding} || (*form)[3] != std::byte{table_encoding})
    return;
  if (const auto table = slice(header, table_header_size, entry_size * *count)) table_ = *table;
}

// After an invalid length nothing can be found.
void FrameTable::list_descriptions() {
  const auto section = elf::find_section(layout_, ".eh_frame");
  if (!section || section->is_compressed) return;
  std::set<std::uint64_t> usual; // CIEs
  for (std::uint64_t at = 0;;) {
    const auto length = read_at<std::uint32_t>(section->bytes, at, layout_.machine.order);
    const auto whole = slice(section->bytes, at, cie_field + length.value_or(0));
    if (!length || *length == 0 || !whole) break;
    const auto distance = read_at<std::uint32_t>(*whole, cie_field, layout_.machine.order);
    const auto start = read_at<std::uint32_t>(*whole, start_field, layout_.machine.order);
    const VirtualAddress description{section->address.value + at};
    if (distance == 0 && has_usual_addresses(*whole, layout_.machine))
      usual.insert(at);
    else if (distance && start && usual.contains(at + cie_field - *distance))
      listed_.push_back({relative({description.value + start_field}, *start), description});
    at += whole->size();
  }
  std::ranges::sort(listed_, {}, [](const Entry& entry) { return entry.start.value; });
}

Bytes FrameTable::bytes_from(VirtualAddress address) const {
  return elf::bytes_from(layout_, address).value_or(Bytes());
}

std::uint64_t FrameTable::size() const {
  return listed_.empty() ? table_.size() / entry_size : listed_.size();
}

std::optional<FrameTable::Entry> FrameTable::entry(std::uint64_t index) const {
  if (!listed_.empty()) return listed_[index];
  const ByteOrder order = layout_.machine.order;
  const auto start = read_at<std::uint32_t>(table_, index * entry_size, order);
  const auto description = read_at<std::uint32_t>(table_, index * entry_size + 4, order);
  if (!start || !description) return std::nullopt;
  return Entry{relative(header_, *start), relative(header_, *description)};
}

std::optional<FramePiece> FrameTable::piece_at(VirtualAddress address) const {
  std::uint64_t begin = 0; // after the loop: end of the pieces that begin at or before address
  for (std::uint64_t end = size(); begin < end;) {
    const std::uint64_t middle = begin + (end - begin) / 2;
    const auto found = entry(middle);
    if (found && found->start <= address)
      begin = middle + 1;
    else
      end = middle;
  }
  if (begin == 0) return std::nullopt;
  const auto found = entry(begin - 1);
  const auto piece = found ? read(*found) : std::nullopt;
  if (!piece || address.value - found->start.value >= piece->range.size) return std::nullopt;
  return piece;
}

std::optional<FramePiece> FrameTable::read(const Entry& entry) const {
  const auto& [start, description] = entry;
  const ByteOrder order = layout_.machine.order;
  const Bytes bytes = bytes_from(description);
  const auto length = read_at<std::uint32_t>(bytes, 0, order);
  const auto distance = read_at<std::uint32_t>(bytes, cie_field, order);
  const auto begin = read_at<std::uint32_t>(bytes, start_field, order);
  const auto size = read_at<std::uint32_t>(bytes, size_field, order);
  if (!length || !distance || !begin || !size) return std::nullopt;
  const auto whole = slice(bytes, 0, std::uint64_t{*length} + cie_field);
  // The CIE has the encoding of addresses. Instead of reading it, check that the usual encoding
  // yields the start.
  if (!whole || relative({description.value + start_field}, *begin) != start) return std::nullopt;
  FramePiece piece{.range = {start, *size}};
  if (!has_augmentation(description, *distance)) return piece;
  const auto augmentation = read_at<std::uint8_t>(*whole, augmentation_field);
  if (!augmentation || *augmentation >= 0x80) return piece; // longer than any known one
  piece.has_handlers = *augmentation != 0;                  // LSDA pointers are all that FDEs have
  const std::uint64_t instructions = augmentation_field + 1 + *augmentation;
  if (instructions < whole->size())
    piece.inside_frame = begin_inside_frame(whole->subspan(instructions));
  return piece;
}

bool FrameTable::has_augmentation(VirtualAddress description, std::uint32_t distance) const {
  const VirtualAddress cie{description.value + cie_field - distance};
  const auto text = c_string_at(bytes_from(cie), cie_augmentation_field);
  return text && text->starts_with('z');
}

} // namespace uprobectl::resolve
