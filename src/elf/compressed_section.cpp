#include "elf/compressed_section.hpp"

#include <fmt/format.h>
#include <zlib.h>

namespace uprobectl::elf {

namespace {

// Debug information shrinks to a third or so. A header that promises much more must not cost that
// memory; zlib could keep a promise of 1032 bytes for one.
constexpr std::uint64_t most_per_byte = 256; // beyond so much:
constexpr std::uint64_t any_ratio = 1U << 20;

class Inflating {
public:
  Inflating(std::string_view name, std::uint64_t most) : name_(name), most_(most) {}

  // gABI chapter 4, "Section Compression": a header with type, size and alignment, each of a word
  // but for the type and what fills it up.
  Result<SectionContent> with_header(Bytes bytes, const Machine& machine) const {
    const auto type = read_at<std::uint32_t>(bytes, 0, machine.order);
    std::optional<std::uint64_t> size = read_at<std::uint32_t>(bytes, 4, machine.order);
    if (machine.is_64bit) size = read_at<std::uint64_t>(bytes, 8, machine.order);
    const std::size_t header = machine.is_64bit ? 24 : 12;
    if (!type || !size || bytes.size() < header)
      return fail(ErrorKind::corrupt, fmt::format("{} ends within its header", name_));
    if (*type != raw::ELFCOMPRESS_ZLIB)
      return fail(ErrorKind::unsupported, fmt::format("{} is not compressed with zlib", name_));
    return inflate(bytes.subspan(header), *size);
  }

  // Of the old form: "ZLIB", and the size as a big-endian number of 8 bytes.
  Result<SectionContent> with_magic(Bytes bytes) const {
    const auto magic = slice(bytes, 0, 4);
    const auto size = read_at<std::uint64_t>(bytes, 4, ByteOrder::big);
    if (!magic || as_text(*magic) != "ZLIB" || !size)
      return fail(ErrorKind::corrupt, fmt::format("{} ends within its header", name_));
    return inflate(bytes.subspan(12), *size);
  }

  Result<void> check_size(std::uint64_t size) const {
    if (size <= most_) return {};
    return fail(ErrorKind::unsupported,
                fmt::format("{} has {} bytes, more than the {} that are read", name_, size, most_));
  }

private:
  Result<SectionContent> inflate(Bytes bytes, std::uint64_t size) const {
    if (auto checked = check_size(size); !checked) return fail(std::move(checked).error());
    const auto damaged = fail(ErrorKind::corrupt, fmt::format("{} cannot be inflated", name_));
    if (size > any_ratio && size / most_per_byte > bytes.size()) return damaged;
    const auto content = std::make_shared<std::vector<std::byte>>(size);
    uLongf got = size;
    // zlib's types are older than const and std::byte.
    if (::uncompress(reinterpret_cast<Bytef*>(content->data()), &got,
                     reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()) != Z_OK ||
        got != size)
      return damaged;
    return SectionContent{*content, content};
  }

  std::string_view name_;
  std::uint64_t most_;
};

} // namespace

Result<std::optional<SectionContent>> section_content(const Layout& layout, std::string_view name,
                                                      std::uint64_t most) {
  const Inflating inflating(name, most);
  if (const auto found = find_section(layout, name)) {
    if ((found->header.flags & raw::SHF_COMPRESSED) != 0)
      return inflating.with_header(found->bytes, layout.machine);
    if (auto checked = inflating.check_size(found->bytes.size()); !checked)
      return fail(std::move(checked).error());
    return SectionContent{found->bytes};
  }
  if (!name.starts_with(".debug_")) return std::nullopt;
  const auto old = find_section(layout, fmt::format(".z{}", name.substr(1)));
  if (!old) return std::nullopt;
  return inflating.with_magic(old->bytes);
}

} // namespace uprobectl::elf
