#include "output/frame_nodes.hpp"

#include "util/utf8.hpp"

namespace uprobectl {

namespace {

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// From U+2E80 on nearly everything is East Asian, and two columns wide.
std::size_t width_of(std::string_view sequence) {
  return sequence.size() > 2 && sequence >= "\u2e80" ? 2 : 1;
}

// The scope that a name begins with, "ns::"; empty where it begins with none, or with a template.
std::string_view front_scope(std::string_view name) {
  constexpr std::string_view anonymous = "(anonymous namespace)::";
  if (name.starts_with(anonymous)) return anonymous;
  std::size_t end = 0;
  while (end < name.size() && (is_letter_or_digit(name[end]) || name[end] == '_')) ++end;
  const bool is_scope = end > 0 && name.substr(end).starts_with("::");
  return name.substr(0, is_scope ? end + 2 : 0);
}

} // namespace

void append_clean(std::string& out, std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text, at);
    const std::string_view sequence = text.substr(at, length);
    if (length == 0 || sequence == "\ufffe" || sequence == "\uffff")
      out += "\ufffd";
    else if (is_control_character(sequence))
      out += ' ';
    else
      out += sequence;
    at += length == 0 ? 1 : length;
  }
}

void append_xml(std::string& out, std::string_view clean) {
  for (const char c : clean) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
}

std::size_t columns_of(std::string_view clean) {
  std::size_t columns = 0;
  for (std::size_t at = 0; at < clean.size();) {
    const std::string_view sequence = clean.substr(at, utf8_length(clean, at));
    columns += width_of(sequence);
    at += sequence.size();
  }
  return columns;
}

std::string fitted(std::string_view clean, std::size_t columns) {
  std::size_t taken = 0;
  std::size_t kept = 0; // bytes that leave a column for the ellipsis
  for (std::size_t at = 0; at < clean.size();) {
    const std::string_view sequence = clean.substr(at, utf8_length(clean, at));
    taken += width_of(sequence);
    at += sequence.size();
    if (taken < columns) kept = at;
    if (taken > columns) return columns < 3 ? "" : std::string(clean.substr(0, kept)) + "…";
  }
  return std::string(clean);
}

std::string fitted_name(std::string_view clean, std::size_t columns) {
  for (std::size_t taken = columns_of(clean); taken > columns;) {
    const std::string_view scope = front_scope(clean);
    if (scope.empty() || scope.size() == clean.size()) break;
    clean.remove_prefix(scope.size());
    taken -= scope.size();
  }
  return fitted(clean, columns);
}

std::size_t FrameNodes::Hash::operator()(const DrawnFrame& frame) const {
  const std::hash<std::string_view> hash;
  return hash(frame.name) * 31 + hash(frame.module);
}

bool FrameNodes::Equal::operator()(const DrawnFrame& a, const DrawnFrame& b) const {
  return a.name == b.name && a.module == b.module;
}

std::string_view FrameNodes::keep(std::string_view text) {
  kept_bytes_ += text.size();
  return kept_.emplace_back(text);
}

std::optional<std::uint32_t> FrameNodes::text_of(const DrawnFrame& frame, bool may_add) {
  if (const auto known = text_numbers_.find(frame); known != text_numbers_.end())
    return known->second;
  const std::size_t room = most_drawn_text - kept_bytes_;
  if (!may_add || frame.name.size() > room || frame.module.size() > room - frame.name.size())
    return std::nullopt;
  texts.push_back({keep(frame.name), keep(frame.module)});
  const auto number = static_cast<std::uint32_t>(texts.size() - 1);
  text_numbers_.emplace(texts.back(), number);
  return number;
}

std::optional<std::uint32_t> FrameNodes::child(std::uint32_t parent, const DrawnFrame& frame) {
  const std::uint32_t recent = nodes[parent].recent;
  if (recent != 0 && Equal()(texts[nodes[recent].text], frame)) return recent;
  const std::uint32_t level = nodes[parent].level + 1;
  const bool may_add = nodes.size() <= most_drawn_frames && level <= most_drawn_levels;
  const auto text = text_of(frame, may_add);
  if (!text) return std::nullopt;
  const std::uint64_t key = std::uint64_t{parent} << 32U | *text;
  auto found = children_.find(key);
  if (found == children_.end()) {
    if (!may_add) return std::nullopt;
    found = children_.emplace(key, static_cast<std::uint32_t>(nodes.size())).first;
    nodes.push_back({.parent = parent, .level = level, .text = *text});
  }
  nodes[parent].recent = found->second;
  return found->second;
}

std::string name_of(const DrawnFrame& frame) {
  std::string name;
  append_clean(name, frame.name);
  if (!name.empty()) return name;
  append_clean(name, frame.module.empty() ? "no name" : frame.module);
  return "[" + name + "]";
}

} // namespace uprobectl
