#include "elf/notes.hpp"

#include "elf/sections.hpp"

#include <iterator>
#include <map>

namespace uprobectl::elf {

namespace {

// Longer than any hash; `ld --build-id=0xHEX` takes any length, bytes.
constexpr std::uint64_t longest_build_id = 256;

std::string to_hex(Bytes bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : bytes) {
    text += digits[std::to_integer<unsigned>(byte) >> 4];
    text += digits[std::to_integer<unsigned>(byte) & 0xf];
  }
  return text;
}

// Visits notes until one is wanted no more (the visitor's false). False where bytes are left that
// are no whole note. A note is three words, then name and descriptor, each padded (gABI chapter 5,
// "Note Section"); the last one's padding may be missing.
template <typename Visitor>
bool walk(Bytes notes, std::uint64_t alignment, ByteOrder order, const Visitor& visit) {
  constexpr std::uint64_t header_size = 12;
  const auto padded = [&](std::uint64_t at) {
    return (at + alignment - 1) / alignment * alignment;
  };
  for (std::uint64_t at = 0; at < notes.size();) {
    const auto name_size = read_at<std::uint32_t>(notes, at, order);
    const auto descriptor_size = read_at<std::uint32_t>(notes, at + 4, order);
    const auto type = read_at<std::uint32_t>(notes, at + 8, order);
    if (!name_size || !descriptor_size || !type) return false;
    const std::uint64_t descriptor_at = padded(at + header_size + *name_size);
    const auto name = slice(notes, at + header_size, *name_size);
    const auto descriptor = slice(notes, descriptor_at, *descriptor_size);
    if (!name || !descriptor) return false;
    std::string_view owner = as_text(*name);
    if (owner.ends_with('\0')) owner.remove_suffix(1);
    if (!visit(NoteRecord{owner, *type, *descriptor})) return true;
    at = padded(descriptor_at + *descriptor_size);
  }
  return true;
}

// Ranges of which none has a byte of another.
class ApartRanges {
public:
  // Adds the range if it has no byte of those before.
  bool add(const ByteRange& range) {
    const auto next = ends_.lower_bound(range.offset);
    if (next != ends_.end() && next->first < range.offset + range.size) return false;
    if (next != ends_.begin() && std::prev(next)->second > range.offset) return false;
    ends_[range.offset] = range.offset + range.size;
    return true;
  }

private:
  std::map<std::uint64_t, std::uint64_t> ends_; // by begin
};

} // namespace

std::optional<std::string> read_build_id(const Layout& layout) {
  for (const Note& note : layout.notes) {
    const auto bytes = slice(layout.bytes, note.range.offset, note.range.size);
    if (!bytes) continue;
    std::optional<std::string> id;
    walk(*bytes, note.alignment, layout.machine.order, [&](const NoteRecord& record) {
      if (record.type == raw::NT_GNU_BUILD_ID && record.owner == "GNU" &&
          !record.descriptor.empty() && record.descriptor.size() <= longest_build_id)
        id = to_hex(record.descriptor);
      return !id;
    });
    if (id) return id;
  }
  return std::nullopt;
}

Result<NotesRead> visit_notes(const Layout& layout,
                              const std::function<void(const NoteRecord&)>& visit) {
  if (const auto headers = check_section_headers(layout); !headers) return fail(headers.error());
  std::vector<Note> tables = note_sections(layout);
  tables.insert(tables.end(), layout.notes.begin(), layout.notes.end());
  NotesRead read;
  ApartRanges apart;
  std::uint64_t left = Image::most_note_bytes;
  for (const Note& table : tables) {
    const auto bytes = slice(layout.bytes, table.range.offset, table.range.size);
    if (!bytes) ++read.broken;
    if (!bytes || bytes->empty() || !apart.add(table.range)) continue;
    if (bytes->size() > left) {
      read.unread += bytes->size();
      continue;
    }
    left -= bytes->size();
    const bool whole =
        walk(*bytes, table.alignment, layout.machine.order, [&](const NoteRecord& record) {
          visit(record);
          return true;
        });
    if (!whole) ++read.broken;
  }
  return read;
}

} // namespace uprobectl::elf
