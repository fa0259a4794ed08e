#include "art/vdex.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl::art {

namespace {

Result<Vdex> read_checksums(Bytes bytes, std::uint32_t version, std::uint64_t at,
                            std::uint64_t count) {
  const auto table = slice(bytes, at, count * sizeof(std::uint32_t));
  if (!table) return fail(ErrorKind::corrupt, "the VDEX file's checksums are cut off");
  Vdex vdex{.version = version, .checksums = {}};
  for (std::uint64_t i = 0; i < count; ++i)
    vdex.checksums.push_back(*read_at<std::uint32_t>(*table, i * sizeof(std::uint32_t)));
  return vdex;
}

// From 027 on: a table of sections, of which kind 0 has the checksums.
Result<Vdex> read_sections(Bytes bytes, std::uint32_t version) {
  constexpr std::uint64_t table_at = 12;
  constexpr std::uint64_t section_size = 12; // kind, offset, size
  constexpr std::uint32_t most_sections = 64;
  const auto count = read_at<std::uint32_t>(bytes, 8).value_or(0);
  for (std::uint32_t i = 0; i < std::min(count, most_sections); ++i) {
    const auto section = slice(bytes, table_at + i * section_size, section_size);
    if (!section) break;
    if (read_at<std::uint32_t>(*section, 0) != 0U) continue;
    return read_checksums(bytes, version, *read_at<std::uint32_t>(*section, 4),
                          *read_at<std::uint32_t>(*section, 8) / sizeof(std::uint32_t));
  }
  return fail(ErrorKind::corrupt, "the VDEX file has no checksums");
}

} // namespace

bool looks_like_vdex(Bytes bytes) {
  const auto magic = slice(bytes, 0, 4);
  return magic && as_text(*magic) == "vdex";
}

Result<Vdex> parse_vdex(Bytes bytes) {
  const auto magic = slice(bytes, 0, 8);
  if (!magic || !looks_like_vdex(bytes)) return fail(ErrorKind::corrupt, "no VDEX file");
  std::uint32_t version = 0;
  for (const char digit : as_text(magic->subspan(4, 3))) {
    if (digit < '0' || digit > '9') return fail(ErrorKind::corrupt, "no VDEX file");
    version = version * 10 + static_cast<std::uint32_t>(digit - '0');
  }
  // Where the number of DEX files is, and where their checksums begin. A header that ends with
  // dex_size, verifier_deps_size and quickening_info_size; from 019 on (Android 9) one with a
  // version of its own for the DEX section; 021 adds two sizes, of the class loader context.
  struct Fixed {
    std::uint64_t count_at;
    std::uint64_t checksums_at;
  };
  constexpr std::uint32_t oldest = 6;
  constexpr std::uint32_t newest = 27;
  if (version < oldest || version > newest)
    return fail(ErrorKind::unsupported, fmt::format("VDEX version {:03} is not known", version));
  if (version == newest) return read_sections(bytes, version);
  const Fixed fixed = version < 11 ? Fixed{8, 24} : version < 21 ? Fixed{12, 20} : Fixed{12, 28};
  const auto count = read_at<std::uint32_t>(bytes, fixed.count_at);
  if (!count) return fail(ErrorKind::corrupt, "the VDEX file's header is cut off");
  return read_checksums(bytes, version, fixed.checksums_at, *count);
}

} // namespace uprobectl::art
