// SPDX-License-Identifier: Apache-2.0
#include "resolve/method_name.hpp"

#include "uprobectl/resolve.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace uprobectl {

namespace {

std::vector<std::string_view> split_parameters(std::string_view text) {
  std::vector<std::string_view> parameters;
  if (trimmed(text, " ").empty()) return parameters;
  while (true) {
    const auto comma = std::min(text.find(','), text.size());
    parameters.push_back(trimmed(text.substr(0, comma), " "));
    if (comma == text.size()) return parameters;
    text.remove_prefix(comma + 1);
  }
}

bool is_type(std::string_view type, std::string_view written) {
  return type == written || is_same_nested(type, written);
}

// Escapes "[]", which stands for an array and not for a set of characters.
std::string with_arrays(std::string_view pattern) {
  std::string text;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern.substr(i, 2) == "[]") text += '\\';
    text += pattern[i];
  }
  return text;
}

// Takes the first code point off UTF-8 text, or one byte if it is not valid UTF-8.
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

std::optional<MethodName> parse_method_name(std::string_view text) {
  MethodName name;
  const auto open = text.find('(');
  if (open != std::string_view::npos) {
    if (!text.ends_with(')')) return std::nullopt;
    name.parameters = split_parameters(text.substr(open + 1, text.size() - open - 2));
  }
  std::string_view qualified = trimmed(text.substr(0, open), " ");
  const auto space = qualified.rfind(' ');
  if (space != std::string_view::npos) {
    name.return_type = trimmed(qualified.substr(0, space), " ");
    qualified.remove_prefix(space + 1);
  }
  const auto dot = qualified.rfind('.');
  if (dot == std::string_view::npos || dot == 0 || dot + 1 == qualified.size()) return std::nullopt;
  name.class_name = qualified.substr(0, dot);
  name.name = qualified.substr(dot + 1);
  return name;
}

bool is_method_pattern(std::string_view text) { return is_pattern(with_arrays(text)); }

bool is_same_nested(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char one, char other) {
    return one == other || (one == '.' && other == '$') || (one == '$' && other == '.');
  });
}

bool has_signature(const art::Signature& signature, const MethodName& name) {
  if (!name.return_type.empty() && !is_type(signature.return_type, name.return_type)) return false;
  return !name.parameters || std::ranges::equal(signature.parameters, *name.parameters, is_type);
}

bool matches_method(std::string_view pattern, std::string_view signature) {
  const std::string escaped = with_arrays(pattern);
  if (matches_pattern(escaped, signature)) return true;
  const auto space = signature.find(' ');
  const auto unreturned = signature.substr(space == std::string_view::npos ? 0 : space + 1);
  return matches_pattern(escaped, unreturned) ||
         matches_pattern(escaped, unreturned.substr(0, unreturned.find('(')));
}

std::vector<std::string> other_methods_at(const art::OatFile& oat, VirtualAddress address,
                                          std::string_view own) {
  std::vector<std::string> names;
  for (const art::Method& method : oat.methods_at(address))
    if (std::string text = to_string(oat.signature(method)); text != own)
      names.push_back(std::move(text));
  return names;
}

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
