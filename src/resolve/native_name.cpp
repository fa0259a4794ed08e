#include "resolve/native_name.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace uprobectl {

namespace {

// The code point at the front of UTF-8, which is taken off; of what is none a byte.
std::uint32_t take_point(std::string_view& text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  constexpr std::array<std::uint32_t, 5> first_bits = {0, 0x7f, 0x1f, 0xf, 0x7};
  const std::size_t size = byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : byte(0) >= 0xc0 ? 2 : 1;
  const std::size_t there = std::min(size, text.size());
  const bool whole = there == size && std::ranges::all_of(text.substr(1, size - 1), [](char c) {
                       return (static_cast<unsigned char>(c) & 0xc0U) == 0x80U;
                     });
  std::uint32_t point = byte(0);
  if (whole && size > 1) {
    point &= first_bits[size];
    for (std::size_t i = 1; i < size; ++i) point = point << 6U | (byte(i) & 0x3fU);
  }
  text.remove_prefix(whole ? size : 1);
  return point;
}

bool is_plain(std::uint32_t point) {
  return (point >= 'a' && point <= 'z') || (point >= 'A' && point <= 'Z') ||
         (point >= '0' && point <= '9');
}

} // namespace

std::string native_name(const art::Signature& signature) {
  std::string text = "Java_";
  const std::string qualified = signature.class_name + '.' + signature.name;
  for (std::string_view rest = qualified; !rest.empty();) {
    const std::uint32_t point = take_point(rest);
    if (point == '.')
      text += '_';
    else if (point == '_')
      text += "_1";
    else if (is_plain(point))
      text += static_cast<char>(point);
    else if (point < 0x10000)
      text += fmt::format("_0{:04x}", point);
    else // a UTF-16 unit each
      text += fmt::format("_0{:04x}_0{:04x}", 0xd800 + (point - 0x10000) / 0x400,
                          0xdc00 + (point - 0x10000) % 0x400);
  }
  return text;
}

} // namespace uprobectl
