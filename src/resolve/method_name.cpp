#include "resolve/method_name.hpp"

#include "uprobectl/resolve.hpp"
#include "util/text.hpp"

#include <algorithm>

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

// "[]" stands for itself: brackets with nothing in them are an array.
std::string with_arrays(std::string_view pattern) {
  std::string text;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern.substr(i, 2) == "[]") text += '\\';
    text += pattern[i];
  }
  return text;
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

} // namespace uprobectl
