// SPDX-License-Identifier: Apache-2.0
#include "unwind/cfi.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl::unwind {

namespace {

// Reads a number of the format and extends it to 64 bits.
std::optional<std::uint64_t> read_stored(elf::DwarfCursor& cursor, unsigned format) {
  const auto widened = [&](unsigned size) {
    const unsigned shift = 64 - 8 * size;
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(cursor.number(size) << shift) >>
                                      shift);
  };
  switch (format) {
  case 0x00: // DW_EH_PE_absptr
  case 0x04: // udata8
  case 0x0c: // sdata8
    return cursor.number(8);
  case 0x01:
    return cursor.unsigned_leb();
  case 0x02:
    return cursor.number(2);
  case 0x03:
    return cursor.number(4);
  case 0x09:
    return static_cast<std::uint64_t>(cursor.signed_leb());
  case 0x0a:
    return widened(2);
  case 0x0b:
    return widened(4);
  default:
    return std::nullopt;
  }
}

using elf::DwarfCursor;

// Seven letters are defined, and each occurs at most once. A CIE is read again for each FDE, so a
// long augmentation string must be rejected.
constexpr std::uint64_t max_augmentation = 16;

std::unexpected<Error> invalid_entry(const FrameSection& section, std::uint64_t at,
                                     std::string_view what) {
  return fail(
      ErrorKind::corrupt,
      fmt::format("the entry at {:#x} of {} {}", at,
                  section.kind == FrameSection::Kind::eh_frame ? ".eh_frame" : ".debug_frame",
                  what));
}

DwarfCursor cursor_over(const FrameSection& section, const Extent& extent) {
  DwarfCursor cursor(section.bytes.first(extent.end), ByteOrder::little);
  cursor.seek(extent.begin);
  return cursor;
}

// Reads the augmentation string.
std::string_view letters_at(DwarfCursor& cursor, const FrameSection& section, const Extent& body) {
  const std::uint64_t at = cursor.at();
  const std::uint64_t size = std::min(body.end - at, max_augmentation + 1);
  const auto letters = c_string_at(section.bytes.subspan(at, size), 0);
  if (letters)
    cursor.skip(letters->size() + 1);
  else
    cursor.fail();
  return letters.value_or(std::string_view());
}

// Reads the data of an augmentation string that begins with 'z'. The data from an unknown letter on
// is skipped by its length. Returns false if the pointer encoding is not found.
bool read_augmentation(std::string_view letters, DwarfCursor& cursor, const FrameSection& section,
                       Cie& cie) {
  cie.has_augmentation_data = true;
  const std::uint64_t size = cursor.unsigned_leb();
  const std::uint64_t begin = cursor.at();
  bool has_encoding = letters.find('R') == std::string_view::npos;
  for (const char letter : letters.substr(1)) {
    if (letter == 'R') {
      cie.pointer_encoding = static_cast<std::uint8_t>(cursor.number(1));
      has_encoding = true;
    } else if (letter == 'L') {
      cursor.skip(1);
    } else if (letter == 'P') {
      const auto encoding = static_cast<std::uint8_t>(cursor.number(1));
      // Skip the personality routine; its address may be indirect.
      if (encoding != pointer_omitted &&
          !read_pointer(cursor, encoding & 0x7fU, section.address.value, 0))
        break;
    } else if (letter == 'S') {
      cie.signal_frame = true;
    } else if (letter != 'B' && letter != 'G') { // without data: signing key, tagged stack
      break;
    }
  }
  cursor.seek(begin);
  cursor.skip(size);
  return has_encoding && !cursor.failed();
}

// Returns the size of an encoded pointer, or nullopt if it varies.
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

// Maximum of entries examined before an address. Valid entries do not overlap.
constexpr int max_examined = 8;

} // namespace

std::optional<std::uint64_t> read_pointer(elf::DwarfCursor& cursor, std::uint8_t encoding,
                                          std::uint64_t field, std::uint64_t data) {
  constexpr unsigned pcrel = 0x10;
  constexpr unsigned datarel = 0x30;
  constexpr unsigned aligned = 0x50;
  const unsigned application = encoding & 0x70U;
  if (encoding == pointer_omitted || (encoding & 0x80U) != 0) return std::nullopt; // indirect
  std::uint64_t base = 0;
  if (application == pcrel) base = field + cursor.at();
  if (application == datarel) base = data;
  if (application == aligned) cursor.skip(-(field + cursor.at()) % 8);
  // No producer for these architectures uses the other bases (text segment, function).
  if (application != 0 && application != pcrel && application != datarel && application != aligned)
    return std::nullopt;
  const auto stored = read_stored(cursor, encoding & 0x0fU);
  if (!stored || cursor.failed()) return std::nullopt;
  return base + *stored; // modulo 2^64: offsets are signed
}

std::optional<EntryHead> read_entry_head(const FrameSection& section, std::uint64_t at) {
  DwarfCursor cursor(section.bytes, ByteOrder::little);
  cursor.seek(at);
  std::uint64_t length = cursor.number(4);
  const bool wide = length == 0xffffffff; // DWARF 5, 7.4: the 64-bit format
  if (wide) length = cursor.number(8);
  if (cursor.failed() || length > section.bytes.size() - cursor.at()) return std::nullopt;
  EntryHead head;
  head.body = {cursor.at(), cursor.at() + length};
  if (length == 0) return head;
  const bool is_eh = section.kind == FrameSection::Kind::eh_frame;
  const unsigned id_size = wide && !is_eh ? 8 : 4;
  const std::uint64_t id_at = cursor.at();
  if (length < id_size) {
    head.kind = EntryHead::Kind::too_short;
    return head;
  }
  const std::uint64_t id = cursor.number(id_size);
  head.body.begin = cursor.at();
  // .eh_frame has the distance back to the CIE, .debug_frame its offset in the section.
  const std::uint64_t cie_id = is_eh ? 0 : (wide ? ~std::uint64_t{0} : 0xffffffff);
  head.kind = id == cie_id ? EntryHead::Kind::cie : EntryHead::Kind::fde;
  if (head.kind == EntryHead::Kind::fde) head.cie_at = is_eh ? id_at - id : id;
  return head;
}

Result<Cie> read_cie(const FrameSection& section, std::uint64_t at) {
  const auto head = read_entry_head(section, at);
  if (!head || head->kind != EntryHead::Kind::cie)
    return invalid_entry(section, at, "is not a CIE");
  DwarfCursor cursor = cursor_over(section, head->body);
  const auto version = static_cast<unsigned>(cursor.number(1));
  if (version != 1 && version != 3 && version != 4)
    return invalid_entry(section, at, fmt::format("is of version {}, not 1, 3 or 4", version));
  const std::string_view letters = letters_at(cursor, section, head->body);
  if (cursor.failed())
    return invalid_entry(section, at, "has no augmentation of 16 letters or fewer");
  if (version == 4) {
    const auto address_size = cursor.number(1);
    const auto selector_size = cursor.number(1);
    if (address_size != 8 || selector_size != 0)
      return invalid_entry(section, at, "is not for addresses of 8 bytes");
  }
  Cie cie;
  cie.code_alignment = cursor.unsigned_leb();
  cie.data_alignment = cursor.signed_leb();
  cie.return_register = version == 1 ? cursor.number(1) : cursor.unsigned_leb();
  if (letters.starts_with('z')) {
    if (!read_augmentation(letters, cursor, section, cie))
      return invalid_entry(section, at,
                           fmt::format("has augmentation '{}', which cannot be read", letters));
  } else if (!letters.empty()) {
    return invalid_entry(section, at,
                         fmt::format("has augmentation '{}', which is not known", letters));
  }
  if (cursor.failed()) return invalid_entry(section, at, "ends within its fields");
  cie.instructions = {cursor.at(), head->body.end};
  return cie;
}

Result<Fde> read_fde(const FrameSection& section, const EntryHead& head, const Cie& cie) {
  DwarfCursor cursor = cursor_over(section, head.body);
  const std::uint64_t data = section.address.value;
  const auto begin = read_pointer(cursor, cie.pointer_encoding, section.address.value, data);
  // The size has the format of the address, but no base.
  const auto size = read_pointer(cursor, cie.pointer_encoding & 0x0fU, 0, 0);
  if (!begin || !size) return invalid_entry(section, head.body.begin, "has no address range");
  if (cie.has_augmentation_data) cursor.skip(cursor.unsigned_leb());
  if (cursor.failed()) return invalid_entry(section, head.body.begin, "ends within its fields");
  return Fde{*begin, *size, {cursor.at(), head.body.end}};
}

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
  // Linkers write offsets from the header or absolute addresses only.
  const bool known = (encoding & 0xf0U) == 0x30 || (encoding & 0xf0U) == 0;
  if (!count || !size || !known) return header;
  header.pointer_size = *size;
  const std::uint64_t row = std::uint64_t{2} * *size;
  const std::uint64_t most = (bytes.size() - cursor.at()) / row; // ignores truncated rows
  header.table = bytes.subspan(cursor.at(), std::min(*count, most) * row);
  return header;
}

std::optional<std::uint64_t> find_fde(const FrameHeader& header, std::uint64_t address) {
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

FrameFinder::FrameFinder(FrameSection section, Extent entries, bool is_end_known,
                         std::optional<FrameHeader> header)
    : section_(section), entries_(entries), is_end_known_(is_end_known), header_(header) {}

std::optional<FoundEntry> FrameFinder::read(std::uint64_t at) const {
  const auto head = read_entry_head(section_, at);
  if (!head || head->kind != EntryHead::Kind::fde) return std::nullopt;
  auto cie = read_cie(section_, head->cie_at);
  if (!cie) return std::nullopt;
  const auto fde = read_fde(section_, *head, *cie);
  if (!fde) return std::nullopt;
  return FoundEntry{*cie, *fde};
}

// The table may be wrong: the FDE that it names must cover the address.
std::optional<FoundEntry> FrameFinder::find_by_header(std::uint64_t address) const {
  if (!header_) return std::nullopt;
  const auto fde = find_fde(*header_, address);
  if (!fde) return std::nullopt;
  auto entry = read(*fde - section_.address.value);
  if (!entry || !entry->fde.covers(address)) return std::nullopt;
  return entry;
}

// Reads the addresses of all FDEs. Takes 2 ms for the 20,000 FDEs of a library of 10 MB.
void FrameFinder::build_index() {
  indexed_ = true;
  std::optional<std::uint64_t> cie_at; // FDEs with the same CIE are adjacent
  Result<Cie> cie = fail(ErrorKind::corrupt, "no CIE");
  for (std::uint64_t at = entries_.begin; at < entries_.end;) {
    const auto head = read_entry_head(section_, at);
    if (!head) break; // the next entry cannot be located
    if (head->kind == EntryHead::Kind::terminator && !is_end_known_) break;
    const std::uint64_t here = at;
    at = head->body.end;
    if (head->kind != EntryHead::Kind::fde) continue;
    if (cie_at != head->cie_at) {
      cie_at = head->cie_at;
      cie = read_cie(section_, *cie_at);
    }
    if (!cie) continue;
    const auto fde = read_fde(section_, *head, *cie);
    // FDEs of functions that the linker has dropped begin at 0.
    if (fde && fde->begin != 0 && fde->size != 0) index_.push_back({fde->begin, here});
  }
  std::ranges::sort(index_, {}, &IndexEntry::begin);
}

std::optional<FoundEntry> FrameFinder::find(std::uint64_t address) {
  if (!indexed_) {
    if (auto entry = find_by_header(address)) return entry;
    build_index();
  }
  auto after = std::ranges::upper_bound(index_, address, {}, &IndexEntry::begin);
  for (int looked = 0; looked < max_examined && after != index_.begin(); ++looked) {
    --after;
    auto entry = read(after->at);
    if (entry && entry->fde.covers(address)) return entry;
  }
  return std::nullopt;
}

} // namespace uprobectl::unwind
