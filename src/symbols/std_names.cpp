// SPDX-License-Identifier: Apache-2.0
#include "symbols/std_names.hpp"

#include <algorithm>
#include <array>

namespace uprobectl::symbols {

namespace {

template <std::size_t N>
bool is_among(std::string_view word, const std::array<std::string_view, N>& words) {
  return std::ranges::find(words, word) != words.end();
}

// A class template of the standard library with default arguments.
struct StdTemplate {
  std::string_view name;
  // The default arguments by position, with T for the first argument and U for the second; empty:
  // not a default.
  std::array<std::string_view, 5> defaults = {};
};
constexpr std::string_view of_traits = "std::char_traits<T>";
constexpr std::string_view of_allocator = "std::allocator<T>";
constexpr std::string_view of_pair_allocator = "std::allocator<std::pair<T const,U>>";
constexpr std::string_view of_less = "std::less<T>";
constexpr std::string_view of_hash = "std::hash<T>";
constexpr std::string_view of_equal = "std::equal_to<T>";
constexpr std::array<StdTemplate, 35> std_templates = {{
    {"vector", {"", of_allocator}},
    {"deque", {"", of_allocator}},
    {"list", {"", of_allocator}},
    {"forward_list", {"", of_allocator}},
    {"set", {"", of_less, of_allocator}},
    {"multiset", {"", of_less, of_allocator}},
    {"map", {"", "", of_less, of_pair_allocator}},
    {"multimap", {"", "", of_less, of_pair_allocator}},
    {"unordered_set", {"", of_hash, of_equal, of_allocator}},
    {"unordered_multiset", {"", of_hash, of_equal, of_allocator}},
    {"unordered_map", {"", "", of_hash, of_equal, of_pair_allocator}},
    {"unordered_multimap", {"", "", of_hash, of_equal, of_pair_allocator}},
    {"stack", {"", "std::deque<T>"}},
    {"queue", {"", "std::deque<T>"}},
    {"priority_queue", {"", "std::vector<T>", of_less}},
    {"unique_ptr", {"", "std::default_delete<T>"}},
    {"basic_string", {"", of_traits, of_allocator}},
    {"basic_string_view", {"", of_traits}},
    {"basic_ios", {"", of_traits}},
    {"basic_istream", {"", of_traits}},
    {"basic_ostream", {"", of_traits}},
    {"basic_iostream", {"", of_traits}},
    {"basic_streambuf", {"", of_traits}},
    {"basic_filebuf", {"", of_traits}},
    {"basic_fstream", {"", of_traits}},
    {"basic_ifstream", {"", of_traits}},
    {"basic_ofstream", {"", of_traits}},
    {"basic_stringbuf", {"", of_traits, of_allocator}},
    {"basic_stringstream", {"", of_traits, of_allocator}},
    {"basic_istringstream", {"", of_traits, of_allocator}},
    {"basic_ostringstream", {"", of_traits, of_allocator}},
    {"istreambuf_iterator", {"", of_traits}},
    {"ostreambuf_iterator", {"", of_traits}},
    {"basic_regex", {"", "std::regex_traits<T>"}},
    {"match_results", {"", "std::allocator<std::sub_match<T>>"}},
}};

// Removes the inline namespaces of the standard library: "std::__1::less<int>" -> "std::less<int>".
std::string without_inline_std(std::string_view type) {
  constexpr std::string_view scope = "std::";
  std::string plain;
  while (!type.empty()) {
    const std::size_t end = std::min(type.find(scope), type.size());
    plain += type.substr(0, end);
    type.remove_prefix(end);
    if (type.empty()) break;
    plain += scope;
    type.remove_prefix(scope.size());
    const std::size_t next = type.find("::");
    if (next != std::string_view::npos && is_inline_std_namespace(type.substr(0, next)))
      type.remove_prefix(next + 2);
  }
  return plain;
}

std::string default_argument(std::string_view form, std::span<const std::string> arguments) {
  std::string text;
  for (std::size_t i = 0; i < form.size(); ++i) {
    const bool is_variable =
        (form[i] == 'T' || form[i] == 'U') && i > 0 && std::string_view("<,").contains(form[i - 1]);
    if (!is_variable)
      text += form[i];
    else
      text += without_inline_std(arguments[form[i] == 'T' ? 0 : 1]);
  }
  return text;
}

} // namespace

bool is_inline_std_namespace(std::string_view component) {
  constexpr std::array<std::string_view, 7> names = {"__cxx11", "__1", "__ndk1", "__Cr",
                                                     "__8",     "_V2", "__fs"};
  return is_among(component, names);
}

std::optional<std::string> expand_std_alias(std::string_view name) {
  constexpr std::array<std::string_view, 15> aliases = {
      "string",       "string_view", "ostream", "istream",       "iostream",
      "ofstream",     "ifstream",    "fstream", "ostringstream", "istringstream",
      "stringstream", "streambuf",   "filebuf", "stringbuf",     "ios"};
  constexpr std::array<std::string_view, 3> characters = {"u8string", "u16string", "u32string"};
  if (is_among(name, characters)) {
    const std::string bits(name.substr(1, name.size() - 1 - std::string_view("string").size()));
    return "basic_string<char" + bits + "_t>";
  }
  if (!is_among(name, aliases)) {
    if (!name.starts_with('w') || !is_among(name.substr(1), aliases)) return std::nullopt;
  }
  const bool is_wide = name.starts_with('w');
  return "basic_" + std::string(name.substr(is_wide ? 1 : 0)) + (is_wide ? "<wchar_t>" : "<char>");
}

std::size_t count_without_defaults(std::string_view name, std::span<const std::string> arguments) {
  std::size_t count = arguments.size();
  const auto known = std::ranges::find(std_templates, name, &StdTemplate::name);
  if (known == std_templates.end() || count > known->defaults.size()) return count;
  for (; count > 1; --count) {
    const std::string_view form = known->defaults[count - 1];
    if (form.empty() ||
        without_inline_std(arguments[count - 1]) != default_argument(form, arguments))
      break;
  }
  return count;
}

bool may_be_default_argument(std::string_view argument, std::string_view first) {
  constexpr std::array<std::string_view, 6> names = {"allocator", "char_traits", "less",
                                                     "hash",      "equal_to",    "default_delete"};
  const std::string plain = without_inline_std(argument);
  const std::string of = without_inline_std(first);
  if (plain.starts_with("std::allocator<std::pair<" + of + " const,")) return true;
  return std::ranges::any_of(names, [&](std::string_view name) {
    return plain == "std::" + std::string(name) + "<" + of + ">";
  });
}

} // namespace uprobectl::symbols
