// SPDX-License-Identifier: Apache-2.0
#include "host/device_text.hpp"

#include "output/format.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace uprobectl::host {

namespace {

constexpr char escape_character = '\x1b';
constexpr std::string_view clear_line = "\x1b[K"; // to its end (ECMA-48, EL)
// The colours of src/output (ECMA-48, SGR). Others can hide text.
constexpr std::array<std::string_view, 9> colours = {"\x1b[0m",  "\x1b[1;31m", "\x1b[31m",
                                                     "\x1b[32m", "\x1b[33m",   "\x1b[1;33m",
                                                     "\x1b[34m", "\x1b[35m",   "\x1b[36m"};

// Whether the text may be the beginning of a UTF-8 sequence.
bool is_incomplete(std::string_view text) {
  const auto first = static_cast<unsigned char>(text.front());
  const std::size_t length = first >= 0xf5 ? 1 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  return first >= 0xc2 && text.size() < length &&
         std::ranges::all_of(
             text.substr(1),
             [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) == 0x80; });
}

bool is_plain(char c) { return c >= 0x20 && c < 0x7f; }

} // namespace

// Returns the length of an allowed escape sequence at the start; 0 if there is none, and npos if
// the text ends within what may be one.
std::size_t DeviceText::sequence_at(std::string_view text) const {
  if (content_ == StreamContent::json) return 0;
  bool may_follow = false;
  const auto begins_with = [&](std::string_view sequence) {
    may_follow = may_follow || sequence.starts_with(text);
    return text.starts_with(sequence);
  };
  if (content_ == StreamContent::messages && begins_with(clear_line)) return clear_line.size();
  for (const std::string_view colour : colours)
    if (begins_with(colour)) return colour.size();
  return may_follow ? std::string_view::npos : 0;
}

void DeviceText::escape(std::string& out, std::string_view character) const {
  if (content_ != StreamContent::json) return output::append_printable(out, character);
  if (utf8_length(character, 0) == 0) {
    out += "\\ufffd";
    return;
  }
  // All control characters are in the Basic Multilingual Plane.
  out += fmt::format("\\u{:04x}", first_code_point(character));
}

std::string DeviceText::add(std::string_view bytes) {
  if (content_ == StreamContent::bytes) return std::string(bytes);
  pending_ += bytes;
  std::string out;
  std::string_view rest = pending_;
  while (!rest.empty()) {
    const auto plain =
        static_cast<std::size_t>(std::ranges::find_if_not(rest, is_plain) - rest.begin());
    out += rest.substr(0, plain);
    rest.remove_prefix(plain);
    if (rest.empty()) break;
    const char first = rest.front();
    std::size_t length = 1;
    bool passes = first == '\n' || (first == '\t' && content_ != StreamContent::json) ||
                  (first == '\r' && content_ == StreamContent::messages);
    if (first == escape_character) {
      const std::size_t sequence = sequence_at(rest);
      if (sequence == std::string_view::npos) break;
      passes = sequence > 0;
      length = std::max<std::size_t>(sequence, 1);
    } else if (static_cast<unsigned char>(first) >= 0x80) {
      length = utf8_length(rest, 0);
      if (length == 0 && is_incomplete(rest)) break;
      passes = length > 0 && !is_control_character(rest.substr(0, length));
      length = std::max<std::size_t>(length, 1);
    }
    if (passes)
      out += rest.substr(0, length);
    else
      escape(out, rest.substr(0, length));
    rest.remove_prefix(length);
  }
  pending_.erase(0, pending_.size() - rest.size());
  return out;
}

std::string DeviceText::finish() {
  std::string out;
  for (const char c : pending_)
    if (is_plain(c))
      out += c;
    else
      escape(out, {&c, 1});
  pending_.clear();
  return out;
}

} // namespace uprobectl::host
