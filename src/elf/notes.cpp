#include "elf/notes.hpp"

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

// A note is three words, then name and descriptor, each padded (gABI chapter 5, "Note Section").
std::optional<std::string> build_id_in(Bytes notes, std::uint64_t alignment, ByteOrder order) {
  constexpr std::uint64_t header_size = 12;
  const auto padded = [&](std::uint64_t at) {
    return (at + alignment - 1) / alignment * alignment;
  };
  for (std::uint64_t at = 0;;) {
    const auto name_size = read_at<std::uint32_t>(notes, at, order);
    const auto descriptor_size = read_at<std::uint32_t>(notes, at + 4, order);
    const auto type = read_at<std::uint32_t>(notes, at + 8, order);
    if (!name_size || !descriptor_size || !type) return std::nullopt;
    const std::uint64_t descriptor_at = padded(at + header_size + *name_size);
    const auto name = slice(notes, at + header_size, *name_size);
    const auto descriptor = slice(notes, descriptor_at, *descriptor_size);
    if (!name || !descriptor) return std::nullopt;
    if (*type == raw::NT_GNU_BUILD_ID && as_text(*name) == std::string_view("GNU\0", 4) &&
        !descriptor->empty() && descriptor->size() <= longest_build_id)
      return to_hex(*descriptor);
    at = padded(descriptor_at + *descriptor_size);
  }
}

} // namespace

std::optional<std::string> read_build_id(const Layout& layout) {
  for (const Note& note : layout.notes) {
    const auto bytes = slice(layout.bytes, note.range.offset, note.range.size);
    if (!bytes) continue;
    if (auto id = build_id_in(*bytes, note.alignment, layout.machine.order)) return id;
  }
  return std::nullopt;
}

} // namespace uprobectl::elf
