#include "drawing/drawn_text.hpp"

#include "base/utf8.hpp"

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

} // namespace uprobectl
