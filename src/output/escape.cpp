#include "output/escape.hpp"

#include "base/utf8.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

namespace uprobectl {

namespace {

unsigned char byte_at(std::string_view text, std::size_t at) {
  return static_cast<unsigned char>(text[at]);
}

constexpr char hex_digits[] = "0123456789abcdef";

void append_byte(std::string& out, std::string_view prefix, unsigned char byte) {
  out += prefix;
  out += hex_digits[byte >> 4];
  out += hex_digits[byte & 0xf];
}

bool is_plain(unsigned char byte, bool json) {
  return byte >= 0x20 && byte < 0x7f && (!json || (byte != '"' && byte != '\\'));
}

// Bytes looked at together, in whatever registers the machine has for that: a vector extension of
// both compilers.
using Block = unsigned char __attribute__((vector_size(16)));

template <typename T>
T load(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

// Not 0 at the bytes that are not plain.
Block special(Block block, bool json) {
  Block found = (block - 0x20) > 0x7e - 0x20; // wraps around below the space
  if (json) found |= (block == '"') | (block == '\\');
  return found;
}
Block special_at(const char* from, bool json) { return special(load<Block>(from), json); }

bool is_zero(Block block) {
  const auto words = std::bit_cast<std::array<std::uint64_t, 2>>(block);
  return (words[0] | words[1]) == 0;
}

// Whether all of a text of less than 64 bytes is plain. What is left behind whole blocks is looked
// at in two that overlap.
bool is_plain(std::string_view text, bool json) {
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  if (text.size() >= sizeof(Block)) {
    Block found = special_at(end - sizeof(Block), json);
    if (text.size() > 2 * sizeof(Block)) found |= special_at(begin + sizeof(Block), json);
    if (text.size() > 3 * sizeof(Block)) found |= special_at(begin + 2 * sizeof(Block), json);
    return is_zero(found | special_at(begin, json));
  }
  std::array<std::uint64_t, 2> words = {};
  if (text.size() >= 8)
    words = {load<std::uint64_t>(begin), load<std::uint64_t>(end - 8)};
  else if (text.size() >= 4)
    words.fill(load<std::uint32_t>(begin) | std::uint64_t{load<std::uint32_t>(end - 4)} << 32);
  else
    return std::ranges::all_of(
        text, [&](char c) { return is_plain(static_cast<unsigned char>(c), json); });
  return is_zero(special(std::bit_cast<Block>(words), json));
}

// Where the run of plain ASCII that begins at the position ends. Nearly all text is one such run.
std::size_t end_of_run(std::string_view text, std::size_t at, bool json) {
  constexpr std::size_t stride = 4 * sizeof(Block);
  for (; text.size() - at >= stride; at += stride) {
    const char* const from = text.data() + at;
    const Block found = special_at(from, json) | special_at(from + 16, json) |
                        special_at(from + 32, json) | special_at(from + 48, json);
    if (!is_zero(found)) break;
  }
  if (text.size() - at < stride && is_plain(text.substr(at), json)) return text.size();
  while (at < text.size() && is_plain(byte_at(text, at), json)) ++at;
  return at;
}

void append_json_ascii(std::string& out, char c) {
  switch (c) {
  case '"':
    out += "\\\"";
    return;
  case '\\':
    out += "\\\\";
    return;
  case '\n':
    out += "\\n";
    return;
  case '\t':
    out += "\\t";
    return;
  default:
    append_byte(out, "\\u00", static_cast<unsigned char>(c));
  }
}

// A character of two or three bytes by its number (RFC 3629).
void append_json_escape(std::string& out, std::string_view character) {
  unsigned number = byte_at(character, 0) & (character.size() == 2 ? 0x1fU : 0x0fU);
  for (std::size_t i = 1; i < character.size(); ++i)
    number = number << 6U | (byte_at(character, i) & 0x3fU);
  append_byte(out, "\\u", static_cast<unsigned char>(number >> 8U));
  append_byte(out, "", static_cast<unsigned char>(number));
}

} // namespace

void append_printable(std::string& out, std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = end_of_run(text, at, false);
    out += text.substr(at, end - at);
    at = end;
    if (at == text.size()) return;
    const std::size_t known = utf8_length(text, at);
    const std::string_view character = text.substr(at, std::max<std::size_t>(known, 1));
    if (known == 0 || is_control_character(character))
      for (std::size_t i = 0; i < character.size(); ++i)
        append_byte(out, "\\x", byte_at(character, i));
    else
      out += character;
    at += character.size();
  }
}

void append_quoted(std::string& out, std::string_view text, char quote) {
  out += quote;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end =
        std::min(text.find_first_of(std::array{quote, '\\', '\0'}.data(), at), text.size());
    append_printable(out, text.substr(at, end - at));
    if (end < text.size()) out += {'\\', text[end]};
    at = end + 1;
  }
  out += quote;
}

void append_json(std::string& out, std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = end_of_run(text, at, true);
    out += text.substr(at, end - at);
    at = end;
    if (at == text.size()) return;
    const std::size_t length = utf8_length(text, at);
    if (length == 1)
      append_json_ascii(out, text[at]);
    else if (length > 1 && is_control_character(text.substr(at, length)))
      append_json_escape(out, text.substr(at, length));
    else
      out += length == 0 ? "\xef\xbf\xbd" : text.substr(at, length);
    at += length == 0 ? 1 : length;
  }
}

} // namespace uprobectl
