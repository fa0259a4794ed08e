// SPDX-License-Identifier: Apache-2.0
#include "util/text.hpp"

namespace uprobectl {

namespace {

unsigned byte_of(std::string_view text, std::size_t at) {
  return static_cast<unsigned char>(text[at]);
}

bool is_in(unsigned byte, unsigned low, unsigned high) { return byte >= low && byte <= high; }

} // namespace

std::string shortened(std::string_view text, std::size_t most) {
  if (text.size() <= most) return std::string(text);
  std::size_t end = most;
  // UTF-8 is not cut inside of a character. Other bytes are cut anywhere.
  for (std::size_t begin = most; begin > 0 && most - begin < 4; --begin)
    if (const std::size_t length = utf8_length(text, begin - 1);
        length > 1 && begin - 1 + length > most)
      end = begin - 1;
  return std::string(text.substr(0, end)) + "…";
}

std::uint32_t first_code_point(std::string_view text) {
  const std::size_t length = utf8_length(text, 0);
  if (length == 1) return byte_of(text, 0);
  std::uint32_t point = byte_of(text, 0) & (0xffU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) point = point << 6U | (byte_of(text, i) & 0x3fU);
  return point;
}

void append_code_point(std::string& text, std::uint32_t point) {
  const auto put = [&](std::uint32_t byte) { text += static_cast<char>(byte); };
  const auto tail = [&](unsigned shift) { put(0x80U | ((point >> shift) & 0x3fU)); };
  if (point < 0x80) {
    put(point);
  } else if (point < 0x800) {
    put(0xc0U | (point >> 6U));
    tail(0);
  } else if (point < 0x10000) {
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

std::size_t utf8_length(std::string_view text, std::size_t at) {
  const unsigned lead = byte_of(text, at);
  if (lead < 0x80) return 1;
  const std::size_t length = is_in(lead, 0xc2, 0xdf)   ? 2
                             : is_in(lead, 0xe0, 0xef) ? 3
                             : is_in(lead, 0xf0, 0xf4) ? 4
                                                       : 0;
  if (length == 0 || text.size() - at < length) return 0;
  const unsigned low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  const unsigned high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  if (!is_in(byte_of(text, at + 1), low, high)) return 0;
  for (std::size_t i = 2; i < length; ++i)
    if (!is_in(byte_of(text, at + i), 0x80, 0xbf)) return 0;
  return length;
}

bool is_control_character(std::string_view character) {
  if (character.size() == 1) return byte_of(character, 0) < 0x20 || character[0] == '\x7f';
  if (character.size() == 2)
    return character == "\u061c" || (character[0] == '\xc2' && byte_of(character, 1) < 0xa0);
  return character == "\u200e" || character == "\u200f" ||
         (character.size() == 3 && ((character >= "\u2028" && character <= "\u202e") ||
                                    (character >= "\u2066" && character <= "\u2069")));
}

bool is_printable_text(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text, at);
    if (length == 0 || is_control_character(text.substr(at, length))) return false;
    at += length;
  }
  return true;
}

} // namespace uprobectl
