// SPDX-License-Identifier: Apache-2.0
#include "art/mapping_text.hpp"

#include "util/numbers.hpp"
#include "util/text.hpp"

namespace uprobectl::art {

namespace {

// Removes and returns "N:" at the start.
std::optional<std::uint32_t> take_line_number(std::string_view& text) {
  std::string_view rest = text;
  const auto number = take_number<std::uint32_t>(rest);
  if (!number || !rest.starts_with(':')) return std::nullopt;
  text = rest.substr(1);
  return number;
}

// Reads ":10", ":10:12", or nothing. Returns false if it is something else.
bool read_source_position(std::string_view text, std::optional<LineRange>& source) {
  for (int numbers = 0; numbers < 2 && !text.empty(); ++numbers) {
    if (text.front() != ':') return false;
    text.remove_prefix(1);
    const auto line = take_number<std::uint32_t>(text);
    if (!line) return false;
    if (!source) source = {.first = *line, .last = *line};
    source->last = *line;
  }
  return text.empty();
}

bool is_name_letter(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') || letter == '_';
}

// Returns what follows the colon after a key.
std::optional<std::string_view> value_of(std::string_view comment, std::string_view key) {
  for (auto at = comment.find(key); at != std::string_view::npos; at = comment.find(key, at + 1)) {
    if (at > 0 && is_name_letter(comment[at - 1])) continue;
    std::string_view rest = comment.substr(at + key.size());
    if (rest.starts_with('"') || rest.starts_with('\'')) rest.remove_prefix(1);
    rest = trimmed(rest);
    if (rest.starts_with(':')) return trimmed(rest.substr(1));
  }
  return std::nullopt;
}

} // namespace

std::optional<MappedMember> parse_mapped_member(std::string_view line) {
  MappedMember member;
  const auto at = line.rfind(mapping_arrow);
  if (at == std::string_view::npos || at + mapping_arrow.size() == line.size()) return std::nullopt;
  member.method.in_file = line.substr(at + mapping_arrow.size());
  std::string_view left = line.substr(0, at);
  if (const auto first = take_line_number(left))
    member.range = {.first = *first, .last = take_line_number(left).value_or(*first)};
  const auto space = left.find(' ');
  if (space == 0 || space == std::string_view::npos) return std::nullopt;
  member.method.return_type = left.substr(0, space);
  left.remove_prefix(space + 1);
  const auto open = left.find('(');
  member.is_method = open != std::string_view::npos;
  std::string_view name = left.substr(0, open);
  if (member.is_method) {
    const auto close = left.find(')', open);
    if (close == std::string_view::npos ||
        !read_source_position(left.substr(close + 1), member.source))
      return std::nullopt;
    member.method.parameters = left.substr(open + 1, close - open - 1);
    if (const auto dot = name.rfind('.'); dot != std::string_view::npos) {
      member.method.class_name = name.substr(0, dot);
      name.remove_prefix(dot + 1);
    }
  }
  member.method.name = name;
  return name.empty() ? std::nullopt : std::optional(member);
}

std::optional<std::string_view> take_quoted(std::string_view& items) {
  const auto begin = items.find_first_of("\"'");
  if (begin == std::string_view::npos) return std::nullopt;
  const auto end = items.find(items[begin], begin + 1);
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view text = items.substr(begin + 1, end - begin - 1);
  items.remove_prefix(end + 1);
  return text;
}

std::optional<std::string_view> comment_text(std::string_view comment, std::string_view key) {
  auto value = value_of(comment, key);
  if (!value || value->find_first_of("\"'") != 0) return std::nullopt;
  return take_quoted(*value);
}

std::optional<std::string_view> comment_items(std::string_view comment, std::string_view key) {
  const auto value = value_of(comment, key);
  if (!value || value->find_first_of("[{") != 0) return std::nullopt;
  const auto end = value->find(value->front() == '[' ? ']' : '}');
  if (end == std::string_view::npos) return std::nullopt;
  return value->substr(1, end - 1);
}

std::optional<std::string_view> residual_signature(std::string_view comment) {
  if (!comment.contains("com.android.tools.r8.residualsignature")) return std::nullopt;
  return comment_text(comment, "signature");
}

} // namespace uprobectl::art
