#include "elf/symbol_file.hpp"

#include "elf/elf_types.hpp"
#include "elf/notes.hpp"
#include "elf/sections.hpp"

#include <zlib.h>

namespace uprobectl::elf {

SymbolFile::SymbolFile(Layout layout)
    : layout_(std::move(layout)), build_id_(read_build_id(layout_)) {}

Result<SymbolFile> SymbolFile::read(Bytes bytes) {
  auto layout = read_sections_only(bytes);
  if (!layout) return fail(std::move(layout).error());
  layout->notes = note_sections(*layout);
  // A file whose section headers were stripped may still show its build id by program headers.
  if (layout->notes.empty())
    if (auto loaded = read_layout(bytes)) layout->notes = std::move(loaded->notes);
  return SymbolFile(std::move(*layout));
}

Result<SymbolTable> SymbolFile::symbols(Table table, KnownVersions versions) const {
  return section_symbols(layout_, raw::SHT_SYMTAB, table, std::move(versions));
}

Kinship compare(const Machine& machine, const std::optional<std::string>& build_id,
                const SymbolFile& file) {
  using enum Kinship::Answer;
  if (!(file.machine() == machine))
    return {different,
            "it is for " + to_string(file.machine()) + ", not for " + to_string(machine)};
  const auto& id = file.build_id();
  if (id && build_id) {
    if (*id == *build_id) return {same, {}};
    return {different, "its build id is " + *id + ", not " + *build_id};
  }
  if (build_id) return {different, "it has no build id, the binary has " + *build_id};
  if (id) return {different, "its build id is " + *id + ", the binary has none"};
  return {unknown, "neither it nor the binary has a build id to prove that they belong together"};
}

std::optional<DebugLink> read_debug_link(const Layout& layout) {
  const auto section = section_named(layout, ".gnu_debuglink");
  if (!section) return std::nullopt;
  const auto name = c_string_at(*section, 0);
  // A name with a slash would lead out of the folders that are to be searched.
  if (!name || name->empty() || name->find('/') != std::string_view::npos) return std::nullopt;
  const std::uint64_t crc_at = (name->size() + 1 + 3) / 4 * 4;
  const auto crc = read_at<std::uint32_t>(*section, crc_at, layout.machine.order);
  if (!crc) return std::nullopt;
  return DebugLink{std::string(*name), *crc};
}

std::uint32_t crc32_of(Bytes bytes) {
  return static_cast<std::uint32_t>(
      ::crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

} // namespace uprobectl::elf
