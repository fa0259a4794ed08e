// SPDX-License-Identifier: Apache-2.0
#include "elf/layout.hpp"

#include "elf/elf_types.hpp"
#include "elf/sections.hpp"

#include <iterator>
#include <map>

namespace uprobectl::elf {

namespace {

// Bytes; longer than any hash, but `ld --build-id=0xHEX` accepts any length.
constexpr std::uint64_t max_build_id = 256;

std::string to_hex(Bytes bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : bytes) {
    text += digits[std::to_integer<unsigned>(byte) >> 4];
    text += digits[std::to_integer<unsigned>(byte) & 0xf];
  }
  return text;
}

// Visits notes until the visitor returns false. Returns false if the last note is truncated. Name
// and descriptor are padded (gABI chapter 5, "Note Section"). The padding of the last descriptor
// may be missing, which LLVM's iterator rejects.
template <class ELFT, typename Visitor>
bool walk_as(Bytes notes, std::uint64_t alignment, const Visitor& visit) {
  using Header = typename ELFT::Nhdr;
  for (std::uint64_t at = 0; at < notes.size();) {
    const auto* const header = view_at<Header>(notes, at);
    if (header == nullptr) return false;
    const std::uint32_t name_size = header->n_namesz;
    const std::uint32_t descriptor_size = header->n_descsz;
    const std::uint64_t name_at = at + sizeof(Header);
    const std::uint64_t descriptor_at = llvm::alignTo(name_at + name_size, alignment);
    const auto name = slice(notes, name_at, name_size);
    const auto descriptor = slice(notes, descriptor_at, descriptor_size);
    if (!name || !descriptor) return false;
    std::string_view owner = as_text(*name);
    if (owner.ends_with('\0')) owner.remove_suffix(1);
    if (!visit(NoteRecord{owner, header->n_type, *descriptor})) return true;
    at = llvm::alignTo(descriptor_at + descriptor_size, alignment);
  }
  return true;
}

template <typename Visitor>
bool walk(const Machine& machine, Bytes notes, std::uint64_t alignment, const Visitor& visit) {
  return with_elf_type(machine,
                       [&]<class ELFT>() { return walk_as<ELFT>(notes, alignment, visit); });
}

// Returns the first note of a PT_NOTE that the test accepts.
template <typename Test>
std::optional<NoteRecord> find_note(const Layout& layout, Test test) {
  std::optional<NoteRecord> found;
  for (const NoteTable& table : layout.notes) {
    const auto bytes = slice(layout.bytes, table.offset, table.size);
    if (!bytes) continue;
    walk(layout.machine, *bytes, table.alignment, [&](const NoteRecord& note) {
      if (test(note)) found = note;
      return !found;
    });
    if (found) return found;
  }
  return found;
}

// Ranges that do not overlap.
class DisjointRanges {
public:
  // Adds the range unless it overlaps another one.
  bool add(const NoteTable& range) {
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
  const auto note = find_note(layout, [](const NoteRecord& each) {
    return each.type == raw::NT_GNU_BUILD_ID && each.owner == "GNU" && !each.descriptor.empty() &&
           each.descriptor.size() <= max_build_id;
  });
  if (!note) return std::nullopt;
  return to_hex(note->descriptor);
}

bool has_note(const Layout& layout, std::string_view owner, std::uint32_t type) {
  return find_note(layout,
                   [&](const NoteRecord& each) {
                     return each.type == type &&
                            each.owner.substr(0, each.owner.find('\0')) == owner;
                   })
      .has_value();
}

Result<NoteStatistics> visit_notes(const Layout& layout,
                                   const std::function<void(const NoteRecord&)>& visit) {
  if (const auto headers = check_section_headers(layout); !headers) return fail(headers.error());
  std::vector<NoteTable> tables = note_sections(layout);
  tables.insert(tables.end(), layout.notes.begin(), layout.notes.end());
  NoteStatistics read;
  DisjointRanges disjoint;
  std::uint64_t left = Image::max_note_bytes;
  for (const NoteTable& table : tables) {
    const auto bytes = slice(layout.bytes, table.offset, table.size);
    if (!bytes) ++read.broken;
    if (!bytes || bytes->empty() || !disjoint.add(table)) continue;
    if (bytes->size() > left) {
      read.unread += bytes->size();
      continue;
    }
    left -= bytes->size();
    const bool whole = walk(layout.machine, *bytes, table.alignment, [&](const NoteRecord& record) {
      visit(record);
      return true;
    });
    if (!whole) ++read.broken;
  }
  return read;
}

} // namespace uprobectl::elf
