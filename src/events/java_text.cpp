#include "events/java_text.hpp"

namespace uprobectl {

namespace {

// A surrogate pair, RFC 2781 2.2.
constexpr std::uint32_t first_high = 0xd800;
constexpr std::uint32_t first_low = 0xdc00;
constexpr std::uint32_t behind_low = 0xe000;
constexpr std::uint32_t first_of_pairs = 0x10000;
constexpr std::uint32_t unknown = 0xfffd;

bool is_high(std::uint32_t unit) { return unit >= first_high && unit < first_low; }
bool is_low(std::uint32_t unit) { return unit >= first_low && unit < behind_low; }

// RFC 3629.
void append_utf_8(std::string& text, std::uint32_t point) {
  const auto put = [&](std::uint32_t byte) { text += static_cast<char>(byte); };
  const auto tail = [&](unsigned shift) { put(0x80U | ((point >> shift) & 0x3fU)); };
  if (point < 0x80) {
    put(point);
  } else if (point < 0x800) {
    put(0xc0U | (point >> 6U));
    tail(0);
  } else if (point < first_of_pairs) {
    put(0xe0U | (point >> 12U));
    tail(6);
    tail(0);
  } else {
    put(0xf0U | (point >> 18U));
    tail(12);
    tail(6);
    tail(0);
  }
}

} // namespace

std::string utf_8_of_latin_1(Bytes characters) {
  std::string text;
  for (const std::byte character : characters)
    append_utf_8(text, std::to_integer<std::uint32_t>(character));
  return text;
}

std::string utf_8_of_utf_16(Bytes characters) {
  std::string text;
  for (std::size_t at = 0; const auto unit = read_at<std::uint16_t>(characters, at); at += 2) {
    const auto next = read_at<std::uint16_t>(characters, at + 2);
    if (is_high(*unit) && next && is_low(*next)) {
      append_utf_8(text, first_of_pairs + ((*unit - first_high) << 10U) + (*next - first_low));
      at += 2;
    } else {
      append_utf_8(text, is_high(*unit) || is_low(*unit) ? unknown : *unit);
    }
  }
  return text;
}

} // namespace uprobectl
