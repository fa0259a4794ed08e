// SPDX-License-Identifier: Apache-2.0
#include "symbols/typedefs.hpp"

#include <algorithm>
#include <array>

namespace uprobectl::symbols {

namespace {

constexpr std::size_t max_type_names = 16;

bool may_be_typedef(std::string_view name) {
  constexpr std::array<std::string_view, 17> others = {
      "void", "bool",   "char",     "wchar_t",  "char8_t", "char16_t", "char32_t", "short",   "int",
      "long", "signed", "unsigned", "__int128", "float",   "double",   "const",    "volatile"};
  return !is_ascii_digit(name.front()) && name.find_first_of("{}~") == std::string_view::npos &&
         std::ranges::find(others, name) == others.end();
}

// Calls `visit(type, is_parameter)` for each type in the name.
template <typename Name, typename Visit>
void for_each_type(Name& name, Visit visit) {
  visit(name.return_type, false);
  for (auto& component : name.components) {
    if (component.template_arguments)
      for (auto& type : *component.template_arguments) visit(type, false);
    if (component.parameters)
      for (auto& type : *component.parameters) visit(type, true);
  }
}

std::string with_replaced_names(std::string_view type, const TypedefMap& typedefs) {
  constexpr std::string_view qualifier = " const";
  std::string result;
  while (!type.empty()) {
    const std::string_view path = path_at(type);
    if (path.empty()) {
      result += type.front();
      type.remove_prefix(1);
      continue;
    }
    type.remove_prefix(path.size());
    const auto known = typedefs.find(path);
    // The text after a function or an array type would belong inside its declarator.
    const bool is_alone = result.empty() && type.empty();
    if (known == typedefs.end() ||
        (!is_alone && known->second.find_first_of("([") != std::string::npos)) {
      result += path;
      continue;
    }
    result += known->second;
    if (result.ends_with(qualifier) && type.starts_with(qualifier))
      type.remove_prefix(qualifier.size());
  }
  return result;
}

// Parameters have no const at top level, and arrays are pointers.
std::string decayed(std::string type) {
  constexpr std::string_view qualifier = " const";
  if (type.ends_with(qualifier)) type.resize(type.size() - qualifier.size());
  if (const auto bounds = type.find('[');
      bounds != std::string::npos && !type.contains('(') && type.ends_with(']')) {
    type.resize(bounds);
    type += '*';
  }
  return type;
}

} // namespace

std::vector<std::string> type_names(const ParsedName& name) {
  std::vector<std::string> names;
  for_each_type(name, [&](std::string_view type, bool) {
    while (!type.empty() && names.size() < max_type_names) {
      const std::string_view path = path_at(type);
      type.remove_prefix(std::max<std::size_t>(path.size(), 1));
      if (path.empty() || !may_be_typedef(path)) continue;
      if (std::ranges::find(names, path) == names.end()) names.emplace_back(path);
    }
  });
  return names;
}

void replace_typedefs(ParsedName& name, const TypedefMap& typedefs) {
  for_each_type(name, [&](std::string& type, bool is_parameter) {
    const bool is_typedef = typedefs.contains(type);
    type = with_replaced_names(type, typedefs);
    if (is_parameter && is_typedef) type = decayed(std::move(type));
  });
}

std::optional<std::string_view> well_known_type(std::string_view name, bool is_64bit) {
  struct Known {
    std::string_view name;
    std::string_view type_64; // LP64
    std::string_view type_32; // ILP32
  };
  constexpr std::string_view word = "long";
  constexpr std::string_view unsigned_word = "unsigned long";
  static constexpr std::array<Known, 26> all = {{
      {"size_t", unsigned_word, "unsigned int"},
      {"ssize_t", word, "int"},
      {"ptrdiff_t", word, "int"},
      {"intptr_t", word, "int"},
      {"uintptr_t", unsigned_word, "unsigned int"},
      {"intmax_t", word, "long long"},
      {"uintmax_t", unsigned_word, "unsigned long long"},
      {"int8_t", "signed char", "signed char"},
      {"int16_t", "short", "short"},
      {"int32_t", "int", "int"},
      {"int64_t", word, "long long"},
      {"uint8_t", "unsigned char", "unsigned char"},
      {"uint16_t", "unsigned short", "unsigned short"},
      {"uint32_t", "unsigned int", "unsigned int"},
      {"uint64_t", unsigned_word, "unsigned long long"},
      {"off_t", word, word},
      {"off64_t", word, "long long"},
      {"time_t", word, word},
      {"pid_t", "int", "int"},
      {"uid_t", "unsigned int", "unsigned int"},
      {"gid_t", "unsigned int", "unsigned int"},
      {"socklen_t", "unsigned int", "unsigned int"},
      {"ushort", "unsigned short", "unsigned short"},
      {"uint", "unsigned int", "unsigned int"},
      {"ulong", unsigned_word, unsigned_word},
      {"nullptr_t", "std::nullptr_t", "std::nullptr_t"},
  }};
  if (name.starts_with("std::")) name.remove_prefix(std::string_view("std::").size());
  const auto known = std::ranges::find(all, name, &Known::name);
  if (known == all.end()) return std::nullopt;
  return is_64bit ? known->type_64 : known->type_32;
}

} // namespace uprobectl::symbols
