#include "uprobectl/elf/inlined.hpp"

#include "elf/debug_search.hpp"
#include "elf/inlined_places.hpp"
#include "elf/sections.hpp"

#include <fmt/format.h>
#include <map>
#include <zlib.h>

namespace uprobectl::elf {

namespace {

// Sections as they are to be read; owns those that had to be inflated.
class DebugSections {
public:
  explicit DebugSections(const Layout& layout) : layout_(layout) {}

  // Empty where there is no such section.
  Result<Bytes> section(std::string_view name) {
    const auto found = find_section(layout_, name);
    if (!found) return Bytes{};
    if ((found->header.flags & raw::SHF_COMPRESSED) == 0) {
      if (found->bytes.size() > most_debug_info) return too_large(name, found->bytes.size());
      return found->bytes;
    }
    return inflate(name, found->bytes);
  }

private:
  static std::unexpected<Error> too_large(std::string_view name, std::uint64_t size) {
    return fail(ErrorKind::unsupported,
                fmt::format("{} has {} bytes, more than the {} that are read", name, size,
                            most_debug_info));
  }

  // gABI chapter 4, "Section Compression": a header with type, size and alignment, each of a word
  // but for the type and what fills it up.
  Result<Bytes> inflate(std::string_view name, Bytes bytes) {
    const ByteOrder order = layout_.machine.order;
    const bool wide = layout_.machine.is_64bit;
    const auto type = read_at<std::uint32_t>(bytes, 0, order);
    std::optional<std::uint64_t> size = read_at<std::uint32_t>(bytes, 4, order);
    if (wide) size = read_at<std::uint64_t>(bytes, 8, order);
    const std::size_t header = wide ? 24 : 12;
    if (!type || !size || bytes.size() < header)
      return fail(ErrorKind::corrupt, fmt::format("{} ends within its header", name));
    if (*type != raw::ELFCOMPRESS_ZLIB)
      return fail(ErrorKind::unsupported, fmt::format("{} is not compressed with zlib", name));
    if (*size > most_debug_info) return too_large(name, *size);
    std::vector<std::byte>& content = inflated_[std::string(name)];
    content.resize(*size);
    uLongf got = content.size();
    bytes = bytes.subspan(header);
    // zlib's types are older than const and std::byte.
    if (::uncompress(reinterpret_cast<Bytef*>(content.data()), &got,
                     reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()) != Z_OK ||
        got != content.size())
      return fail(ErrorKind::corrupt, fmt::format("{} cannot be inflated", name));
    return Bytes(content);
  }

  const Layout& layout_;
  std::map<std::string, std::vector<std::byte>> inflated_;
};

Result<std::vector<std::optional<std::uint64_t>>>
count_in(const Layout& layout, std::span<const std::string_view> names) {
  DebugSections sections(layout);
  DwarfSections dwarf{.order = layout.machine.order};
  const std::pair<std::string_view, Bytes*> all[] = {{".debug_info", &dwarf.info},
                                                     {".debug_abbrev", &dwarf.abbrev},
                                                     {".debug_str", &dwarf.str},
                                                     {".debug_line_str", &dwarf.line_str},
                                                     {".debug_str_offsets", &dwarf.str_offsets}};
  for (const auto& [name, bytes] : all) {
    auto section = sections.section(name);
    if (!section) return fail(std::move(section).error());
    *bytes = *section;
  }
  if (dwarf.info.empty()) return fail(ErrorKind::not_found, "there is no .debug_info");
  return count_inlined_places(dwarf, names);
}

} // namespace

Result<std::vector<std::optional<std::uint64_t>>>
count_inlined(const Image& image, const DebugSearch& where,
              std::span<const std::string_view> names) {
  const auto layout = read_sections_only(image.bytes());
  if (!layout) return fail(layout.error());
  auto own = count_in(*layout, names);
  if (own || own.error().kind != ErrorKind::not_found) return own;
  const auto file = find_debug_file(image, where);
  if (!file) return own;
  const auto debug_layout = read_sections_only(file->bytes);
  if (!debug_layout) return fail(debug_layout.error());
  return count_in(*debug_layout, names);
}

} // namespace uprobectl::elf
