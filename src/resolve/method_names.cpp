// SPDX-License-Identifier: Apache-2.0
#include "resolve/method_names.hpp"

#include "art/dex.hpp"
#include "uprobectl/resolve.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace uprobectl::resolve {

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

bool is_type(std::string_view type, std::string_view typed) {
  return type == typed || is_same_class(type, typed);
}

// Escapes "[]", which stands for an array and not for a set of characters.
std::string escape_arrays(std::string_view pattern) {
  std::string text;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern.substr(i, 2) == "[]") text += '\\';
    text += pattern[i];
  }
  return text;
}

// Removes and returns the first code point of UTF-8 text, or one byte if it is not valid UTF-8.
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

// "Lcom/foo/Bar;->baz(I)V", also without the return type or the whole descriptor.
std::optional<std::string> from_smali(std::string_view text) {
  constexpr std::string_view arrow = ";->";
  const auto at = text.find(arrow);
  if (at == std::string_view::npos || at == 0 || text.front() != 'L') return std::nullopt;
  const std::string_view method = text.substr(at + arrow.size());
  const auto open = std::min(method.find('('), method.size());
  std::string qualified;
  art::append_type(text.substr(0, at + 1), qualified);
  qualified.append(".").append(method.substr(0, open));
  if (open == method.size()) return qualified;
  std::string descriptor(method.substr(open));
  const bool returns = !descriptor.ends_with(')');
  if (!returns) descriptor += 'V';
  const auto types = art::parse_descriptor(descriptor);
  if (!types) return std::nullopt;
  return fmt::format("{}{}({})", returns ? types->return_type + ' ' : "", qualified,
                     joined(types->parameters));
}

// Whether the text is what a stack trace has in parentheses: "Bar.java:20", "Native Method".
bool is_source_position(std::string_view text) {
  return text.contains(':') || text.ends_with(".java") || text.ends_with(".kt") ||
         text == "Native Method" || text == "Unknown Source";
}

bool is_all_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// Appends the letters and digits of the text, and all else escaped ("Resolving Native Method Names"
// of the JNI specification).
void append_escaped(std::string_view text, std::string& escaped) {
  while (!text.empty()) {
    const std::uint32_t point = take_point(text);
    if (point == '.' || point == '/')
      escaped += '_';
    else if (point == '_')
      escaped += "_1";
    else if (point == ';')
      escaped += "_2";
    else if (point == '[')
      escaped += "_3";
    else if (is_plain(point))
      escaped += static_cast<char>(point);
    else if (point < 0x10000)
      escaped += fmt::format("_0{:04x}", point);
    else // a UTF-16 unit each
      escaped += fmt::format("_0{:04x}_0{:04x}", 0xd800 + (point - 0x10000) / 0x400,
                             0xdc00 + (point - 0x10000) % 0x400);
  }
}

// "int[]" -> "[I", "a.B" -> "La.B;"
std::string descriptor_of(std::string_view type) {
  std::string descriptor;
  for (; type.ends_with("[]"); type.remove_suffix(2)) descriptor += '[';
  constexpr std::array<std::pair<std::string_view, char>, 8> primitives = {{{"boolean", 'Z'},
                                                                            {"byte", 'B'},
                                                                            {"char", 'C'},
                                                                            {"short", 'S'},
                                                                            {"int", 'I'},
                                                                            {"long", 'J'},
                                                                            {"float", 'F'},
                                                                            {"double", 'D'}}};
  const auto found =
      std::ranges::find(primitives, type, [](const auto& each) { return each.first; });
  if (found != primitives.end()) return descriptor + found->second;
  return descriptor.append("L").append(type).append(";");
}

} // namespace

std::string usual_method_name(std::string_view text) {
  if (auto converted = from_smali(text)) return std::move(*converted);
  std::string usual(text);
  const auto mark = text.find('#');
  if (mark != std::string_view::npos && mark != 0 && mark < text.find('(')) usual[mark] = '.';
  // No Java name has a slash, but class files write "com/foo/Bar.baz".
  const std::size_t name_size = std::min(usual.find('('), usual.size());
  if (!text.substr(0, name_size).contains(';'))
    std::replace(usual.begin(), usual.begin() + static_cast<std::ptrdiff_t>(name_size), '/', '.');
  return usual;
}

std::optional<std::string> untyped_method_name(std::string_view text) {
  const std::string usual = usual_method_name(text);
  const auto name = parse_method_name(usual);
  if (!name || name->parameters || !name->return_type.empty()) return std::nullopt;
  return fmt::format("{}.{}", name->class_name, name->name);
}

std::optional<MethodName> parse_method_name(std::string_view text) {
  MethodName name;
  const auto open = text.find('(');
  if (open != std::string_view::npos) {
    if (!text.ends_with(')')) return std::nullopt;
    const auto inside = text.substr(open + 1, text.size() - open - 2);
    if (!is_source_position(inside)) name.parameters = split_parameters(inside);
  }
  std::string_view qualified = trimmed(text.substr(0, open), " ");
  const auto space = qualified.rfind(' ');
  if (space != std::string_view::npos) {
    name.return_type = trimmed(qualified.substr(0, space), " ");
    qualified.remove_prefix(space + 1);
    // "at com.foo.Bar.baz(Bar.java:20)", a line of a stack trace.
    if (name.return_type == "at" && open != std::string_view::npos && !name.parameters)
      name.return_type = {};
  }
  const auto dot = qualified.rfind('.');
  if (dot == std::string_view::npos || dot == 0 || dot + 1 == qualified.size()) return std::nullopt;
  name.class_name = qualified.substr(0, dot);
  name.name = qualified.substr(dot + 1);
  return name;
}

bool is_method_pattern(std::string_view text) { return symbols::is_pattern(escape_arrays(text)); }

bool is_same_class(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char one, char other) {
    return one == other || (one == '.' && other == '$') || (one == '$' && other == '.');
  });
}

bool has_signature(const art::Signature& signature, const MethodName& name) {
  if (!name.return_type.empty() && !is_type(signature.return_type, name.return_type)) return false;
  return !name.parameters || std::ranges::equal(signature.parameters, *name.parameters, is_type);
}

bool matches_method(std::string_view pattern, std::string_view signature) {
  const std::string escaped = escape_arrays(usual_method_name(pattern));
  if (symbols::matches_pattern(escaped, signature)) return true;
  const auto space = signature.find(' ');
  const auto unreturned = signature.substr(space == std::string_view::npos ? 0 : space + 1);
  return symbols::matches_pattern(escaped, unreturned) ||
         symbols::matches_pattern(escaped, unreturned.substr(0, unreturned.find('(')));
}

Derivation derivation(std::string_view name, std::string_view derived) {
  if (derived.starts_with("lambda$")) {
    derived.remove_prefix(std::string_view("lambda$").size());
    if (!derived.starts_with(name)) return Derivation::none;
    const auto rest = derived.substr(name.size());
    return rest.starts_with('$') && is_all_digits(rest.substr(1)) ? Derivation::separate
                                                                  : Derivation::none;
  }
  // Kotlin and javac, then D8 (synthesis of nest-based access).
  for (const std::string_view prefix : {"access$", "-$$Nest$m", "-$$Nest$sm"})
    if (derived.starts_with(prefix) && derived.substr(prefix.size()) == name)
      return Derivation::separate;
  if (!derived.starts_with(name) || derived.size() < name.size() + 2) return Derivation::none;
  const auto rest = derived.substr(name.size());
  if (rest.front() == '-') return Derivation::renamed;
  if (rest.front() != '$') return Derivation::none;
  const auto suffix = rest.substr(1);
  if (suffix == "default" || suffix == "suspendImpl" || suffix.contains('$') ||
      is_all_digits(suffix))
    return Derivation::separate;
  return Derivation::renamed;
}

std::string native_name(const art::Signature& signature) {
  std::string text = "Java_";
  append_escaped(signature.class_name + '.' + signature.name, text);
  return text;
}

std::string native_parameters(const art::Signature& signature) {
  std::string text = "__";
  for (const std::string& type : signature.parameters) append_escaped(descriptor_of(type), text);
  return text;
}

} // namespace uprobectl::resolve
