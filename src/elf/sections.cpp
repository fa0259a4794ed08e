#include "elf/sections.hpp"

#include "elf/names.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl::elf {

namespace {

class SectionHeaders {
public:
  explicit SectionHeaders(const Layout& layout) : machine_(layout.machine) {
    const FileHeader& header = layout.header;
    const std::uint64_t entry = section_header_size(machine_);
    if (header.section_headers == 0 || header.section_header_size != entry) return;
    std::uint64_t count = header.section_header_count;
    if (count == 0) { // gABI chapter 4: 65280 sections and more are counted in section 0's sh_size
      const auto first = read_section_header(layout.bytes, header.section_headers, machine_);
      if (!first) return;
      count = first->size;
    }
    const auto size = checked_mul(count, entry);
    if (!size) return;
    if (const auto bytes = slice(layout.bytes, header.section_headers, *size)) bytes_ = *bytes;
  }

  Bytes bytes() const { return bytes_; }

  std::uint64_t count() const { return bytes_.size() / section_header_size(machine_); }

  std::optional<SectionHeader> at(std::uint64_t index) const {
    const auto offset = checked_mul(index, section_header_size(machine_));
    if (!offset) return std::nullopt;
    return read_section_header(bytes_, *offset, machine_);
  }

  std::optional<SectionHeader> first_of(std::uint32_t type) const {
    for (std::uint64_t index = 0;; ++index) {
      const auto section = at(index);
      if (!section || section->type == type) return section;
    }
  }

private:
  Machine machine_;
  Bytes bytes_;
};

std::optional<Bytes> section_bytes(const Layout& layout, const SectionHeader& section) {
  return slice(layout.bytes, section.offset, section.size);
}

} // namespace

Result<SymbolTable> section_symbols(const Layout& layout, std::uint32_t type, Table table,
                                    KnownVersions versions) {
  const std::string_view name = type == raw::SHT_SYMTAB ? ".symtab" : ".dynsym";
  const SectionHeaders headers(layout);
  const auto section = headers.first_of(type);
  if (!section) return SymbolTable();
  if (section->entry_size != symbol_size(layout.machine))
    return fail(ErrorKind::corrupt, fmt::format("{} has entries of {} bytes where {} are due", name,
                                                section->entry_size, symbol_size(layout.machine)));
  const auto entries = section_bytes(layout, *section);
  if (!entries)
    return fail(ErrorKind::corrupt,
                fmt::format("{} at {}, {} bytes, lies outside the file of {} bytes", name,
                            hex(section->offset), section->size, layout.bytes.size()));
  const auto string_section = headers.at(section->link);
  if (!string_section || string_section->type != raw::SHT_STRTAB)
    return fail(ErrorKind::corrupt, fmt::format("{} has its names in section {}, no string table",
                                                name, section->link));
  const auto strings = section_bytes(layout, *string_section);
  if (!strings)
    return fail(
        ErrorKind::corrupt,
        fmt::format("the string table of {} at {}, {} bytes, lies outside the file of {} bytes",
                    name, hex(string_section->offset), string_section->size, layout.bytes.size()));
  return SymbolTable(
      {layout.machine, table, *entries, *strings, {}, std::move(versions), headers.bytes()});
}

std::optional<FoundSection> find_section(const Layout& layout, std::string_view name) {
  const SectionHeaders headers(layout);
  std::uint64_t names_at = layout.header.section_names;
  if (names_at == raw::SHN_XINDEX) // gABI chapter 4: the real index is section 0's sh_link
    names_at = headers.at(0).value_or(SectionHeader{}).link;
  const auto names = headers.at(names_at);
  if (!names) return std::nullopt;
  const auto strings = section_bytes(layout, *names);
  if (!strings) return std::nullopt;
  for (std::uint64_t index = 1; index < headers.count(); ++index) {
    const auto section = headers.at(index);
    if (section->type == raw::SHT_NOBITS) continue;
    const auto text = slice(*strings, section->name, name.size() + 1);
    if (!text || as_text(*text).substr(0, name.size()) != name) continue;
    if (as_text(*text).back() != '\0') continue;
    const auto bytes = section_bytes(layout, *section);
    if (!bytes) return std::nullopt;
    return FoundSection{*section, *bytes};
  }
  return std::nullopt;
}

std::optional<Bytes> section_named(const Layout& layout, std::string_view name) {
  const auto found = find_section(layout, name);
  if (!found) return std::nullopt;
  return found->bytes;
}

Result<void> check_section_headers(const Layout& layout) {
  const FileHeader& header = layout.header;
  if (header.section_headers == 0 || SectionHeaders(layout).count() > 0) return {};
  return fail(Error{ErrorKind::corrupt,
                    fmt::format("section headers at {}, {} of {} bytes, lie outside the file of {} "
                                "bytes",
                                hex(header.section_headers), header.section_header_count,
                                header.section_header_size, layout.bytes.size())}
                  .hint("the file seems to be truncated"));
}

std::vector<Note> note_sections(const Layout& layout) {
  const SectionHeaders headers(layout);
  std::vector<Note> notes;
  for (std::uint64_t index = 1; index < headers.count(); ++index) {
    const auto section = headers.at(index);
    if (section->type == raw::SHT_NOTE)
      notes.push_back({{section->offset, section->size},
                       section->alignment == 8 ? std::uint64_t{8} : std::uint64_t{4}});
  }
  return notes;
}

std::optional<std::uint64_t> section_symbol_count(const Layout& layout, VirtualAddress address) {
  const auto section = SectionHeaders(layout).first_of(raw::SHT_DYNSYM);
  if (!section || section->address != address.value) return std::nullopt;
  return section->size / symbol_size(layout.machine);
}

std::vector<AddressRange> code_sections_named(const Layout& layout,
                                              std::span<const std::string_view> names) {
  const SectionHeaders headers(layout);
  std::uint64_t names_at = layout.header.section_names;
  if (names_at == raw::SHN_XINDEX) // gABI chapter 4: the real index is section 0's sh_link
    names_at = headers.at(0).value_or(SectionHeader{}).link;
  std::vector<AddressRange> ranges;
  const auto strings_section = headers.at(names_at);
  if (!strings_section) return ranges;
  const auto strings = section_bytes(layout, *strings_section);
  if (!strings) return ranges;
  for (std::uint64_t index = 1; index < headers.count(); ++index) {
    const auto section = headers.at(index);
    if ((section->flags & raw::SHF_EXECINSTR) == 0) continue;
    const auto name = name_at(*strings, section->name);
    if (name && std::ranges::find(names, *name) != names.end())
      ranges.push_back({{section->address}, section->size});
  }
  return ranges;
}

bool has_code_without_bytes(const Layout& layout) {
  const SectionHeaders headers(layout);
  for (std::uint64_t index = 0;; ++index) {
    const auto section = headers.at(index);
    if (!section) return false;
    constexpr std::uint64_t loaded_code = raw::SHF_ALLOC | raw::SHF_EXECINSTR;
    if (section->type == raw::SHT_NOBITS && section->size > 0 &&
        (section->flags & loaded_code) == loaded_code)
      return true;
  }
}

} // namespace uprobectl::elf
