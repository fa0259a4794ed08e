#include "elf/debug_link.hpp"

#include "elf/sections.hpp"

#include <zlib.h>

namespace uprobectl::elf {

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
