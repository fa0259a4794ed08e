#include "unwind/frame_section.hpp"

#include <fmt/format.h>

namespace uprobectl::stacks {

namespace {

using elf::DwarfCursor;

// There are seven, each of which says its own once. Entries may name one long CIE after the other,
// and each time it is read again.
constexpr std::uint64_t most_letters = 16;

std::unexpected<Error> bad(const FrameSection& section, std::uint64_t at, std::string_view what) {
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

// Those of the augmentation, up to the NUL behind them.
std::string_view letters_at(DwarfCursor& cursor, const FrameSection& section, const Extent& body) {
  const std::uint64_t at = cursor.at();
  const std::uint64_t size = std::min(body.end - at, most_letters + 1);
  const auto letters = c_string_at(section.bytes.subspan(at, size), 0);
  if (letters)
    cursor.skip(letters->size() + 1);
  else
    cursor.fail();
  return letters.value_or(std::string_view());
}

// 'z' and what its letters say. What is not known is passed over: the data's length is written
// before it. False where the encoding of pointers is not found out.
bool read_augmentation(std::string_view letters, DwarfCursor& cursor, const FrameSection& section,
                       Cie& cie) {
  cie.has_augmentation_data = true;
  const std::uint64_t size = cursor.unsigned_leb();
  const std::uint64_t begin = cursor.at();
  bool told = letters.find('R') == std::string_view::npos;
  for (const char letter : letters.substr(1)) {
    if (letter == 'R') {
      cie.pointer_encoding = static_cast<std::uint8_t>(cursor.number(1));
      told = true;
    } else if (letter == 'L') {
      cursor.skip(1);
    } else if (letter == 'P') {
      const auto encoding = static_cast<std::uint8_t>(cursor.number(1));
      // Where the personality routine is does not matter, nor that it is known by a pointer.
      if (encoding != pointer_omitted &&
          !read_pointer(cursor, encoding & 0x7fU, section.address.value, 0))
        break;
    } else if (letter == 'S') {
      cie.signal_frame = true;
    } else if (letter != 'B' && letter != 'G') { // no data: which key signs, tagged stacks
      break;
    }
  }
  cursor.seek(begin);
  cursor.skip(size);
  return told && !cursor.failed();
}

} // namespace

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
    head.kind = EntryHead::Kind::neither;
    return head;
  }
  const std::uint64_t id = cursor.number(id_size);
  head.body.begin = cursor.at();
  // .eh_frame counts back from here to the CIE, .debug_frame from the section's begin.
  const std::uint64_t cie_id = is_eh ? 0 : (wide ? ~std::uint64_t{0} : 0xffffffff);
  head.kind = id == cie_id ? EntryHead::Kind::cie : EntryHead::Kind::fde;
  if (head.kind == EntryHead::Kind::fde) head.cie_at = is_eh ? id_at - id : id;
  return head;
}

Result<Cie> read_cie(const FrameSection& section, std::uint64_t at) {
  const auto head = read_entry_head(section, at);
  if (!head || head->kind != EntryHead::Kind::cie) return bad(section, at, "is no CIE");
  DwarfCursor cursor = cursor_over(section, head->body);
  const auto version = static_cast<unsigned>(cursor.number(1));
  if (version != 1 && version != 3 && version != 4)
    return bad(section, at, fmt::format("is of version {}, not 1, 3 or 4", version));
  const std::string_view letters = letters_at(cursor, section, head->body);
  if (cursor.failed()) return bad(section, at, "has no augmentation of 16 letters or fewer");
  if (version == 4) {
    const auto address_size = cursor.number(1);
    const auto selector_size = cursor.number(1);
    if (address_size != 8 || selector_size != 0)
      return bad(section, at, "is not for addresses of 8 bytes");
  }
  Cie cie;
  cie.code_alignment = cursor.unsigned_leb();
  cie.data_alignment = cursor.signed_leb();
  cie.return_register = version == 1 ? cursor.number(1) : cursor.unsigned_leb();
  if (letters.starts_with('z')) {
    if (!read_augmentation(letters, cursor, section, cie))
      return bad(section, at, fmt::format("has augmentation '{}', which cannot be read", letters));
  } else if (!letters.empty()) {
    return bad(section, at, fmt::format("has augmentation '{}', which is not known", letters));
  }
  if (cursor.failed()) return bad(section, at, "ends within its fields");
  cie.instructions = {cursor.at(), head->body.end};
  return cie;
}

Result<Fde> read_fde(const FrameSection& section, const EntryHead& head, const Cie& cie) {
  DwarfCursor cursor = cursor_over(section, head.body);
  const std::uint64_t data = section.address.value;
  const auto begin = read_pointer(cursor, cie.pointer_encoding, section.address.value, data);
  // The size is written like the address, but is relative to nothing.
  const auto size = read_pointer(cursor, cie.pointer_encoding & 0x0fU, 0, 0);
  if (!begin || !size) return bad(section, head.body.begin, "has no address range");
  if (cie.has_augmentation_data) cursor.skip(cursor.unsigned_leb());
  if (cursor.failed()) return bad(section, head.body.begin, "ends within its fields");
  return Fde{*begin, *size, head.cie_at, {cursor.at(), head.body.end}};
}

} // namespace uprobectl::stacks
