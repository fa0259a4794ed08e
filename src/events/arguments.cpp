// SPDX-License-Identifier: Apache-2.0
#include "events/arguments.hpp"
#include "events/presentation.hpp"
#include "events/readings.hpp"
#include "symbols/parsed_name.hpp"
#include "symbols/typedefs.hpp"
#include "util/habits.hpp"
#include "util/numbers.hpp"
#include "util/spelling.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <set>

namespace uprobectl::events {

std::optional<std::uint64_t> parse_unsigned(std::string_view text) {
  int base = 10;
  if (text.starts_with("0x")) {
    base = 16;
    text.remove_prefix(2);
  }
  return parse_number<std::uint64_t>(text, base);
}

bool is_identifier(std::string_view text) {
  return !text.empty() && !is_ascii_digit(text.front()) &&
         std::ranges::all_of(text, in_ascii_identifier);
}

std::string in_single_quotes(std::string_view text) {
  constexpr std::size_t most = 200; // of what a user has typed
  return "'" + shortened(text, most) + "'";
}

const ArgumentSpec* find_argument(std::span<const ArgumentSpec> list, std::string_view name) {
  const auto found = std::ranges::find(list, name, &ArgumentSpec::name);
  return found == list.end() ? nullptr : &*found;
}

std::optional<ArgumentSource> parse_source_name(std::string_view name) {
  ArgumentSource source;
  if (name == result_name) {
    source.kind = ArgumentSource::Kind::returned;
    return source;
  }
  constexpr std::uint64_t max_number = 63;
  if (name.starts_with("arg")) {
    const auto number = parse_unsigned(name.substr(3));
    if (!number || *number > max_number || name.substr(3).starts_with("0x")) return std::nullopt;
    source.number = static_cast<std::uint32_t>(*number);
    return source;
  }
  if (name.starts_with('%')) name.remove_prefix(1);
  if (!register_number(name)) return std::nullopt;
  source.kind = ArgumentSource::Kind::machine_register;
  source.register_name = name;
  return source;
}

namespace {

struct TypeName {
  std::string_view name;
  ArgumentType type;
};
constexpr std::array argument_types = {
    TypeName{"s8", ArgumentType::s8},
    TypeName{"s16", ArgumentType::s16},
    TypeName{"s32", ArgumentType::s32},
    TypeName{"s64", ArgumentType::s64},
    TypeName{"u8", ArgumentType::u8},
    TypeName{"u16", ArgumentType::u16},
    TypeName{"u32", ArgumentType::u32},
    TypeName{"u64", ArgumentType::u64},
    TypeName{"x8", ArgumentType::x8},
    TypeName{"x16", ArgumentType::x16},
    TypeName{"x32", ArgumentType::x32},
    TypeName{"x64", ArgumentType::x64},
    TypeName{"f32", ArgumentType::f32},
    TypeName{"f64", ArgumentType::f64},
    TypeName{"ptr", ArgumentType::ptr},
    TypeName{"bool", ArgumentType::boolean},
    TypeName{"char", ArgumentType::character},
    TypeName{"str", ArgumentType::string},
    TypeName{"cxxstring", ArgumentType::cxx_string},
    TypeName{"jstring", ArgumentType::java_string},
    TypeName{"buf", ArgumentType::bytes},
};

// C and C++ types in canonical form. "char*" is a string, other pointers are addresses.
constexpr std::array c_argument_types = {
    TypeName{"signed char", ArgumentType::s8}, TypeName{"unsigned char", ArgumentType::u8},
    TypeName{"short", ArgumentType::s16},      TypeName{"unsigned short", ArgumentType::u16},
    TypeName{"int", ArgumentType::s32},        TypeName{"unsigned int", ArgumentType::u32},
    TypeName{"long", ArgumentType::s64},       TypeName{"unsigned long", ArgumentType::u64},
    TypeName{"long long", ArgumentType::s64},  TypeName{"unsigned long long", ArgumentType::u64},
    TypeName{"float", ArgumentType::f32},      TypeName{"double", ArgumentType::f64},
    TypeName{"char*", ArgumentType::string},   TypeName{"char const*", ArgumentType::string},
};

std::optional<ArgumentType> parse_c_type_name(std::string_view name) {
  std::string type = symbols::canonical_type(name).value_or("");
  const auto remove_end = [&](std::string_view end) {
    if (type.ends_with(end)) type.resize(type.size() - end.size());
  };
  remove_end(" const");
  if (type.ends_with('*') && type != "char*" && type != "char const*") return ArgumentType::ptr;
  if (const auto known = symbols::well_known_type(type, true)) type = *known;
  const auto* const found = std::ranges::find(c_argument_types, type, &TypeName::name);
  if (found != c_argument_types.end()) return found->type;
  // A reference to a string, as strings are passed.
  remove_end("&");
  remove_end(" const");
  if (type == symbols::canonical_type("std::string")) return ArgumentType::cxx_string;
  return std::nullopt;
}

Error usage(std::string message) { return {ErrorKind::usage, std::move(message)}; }

Error unknown_type(std::string_view name) {
  constexpr std::array floating = {"f32", "f64", "float", "double", "f", "d"};
  if (std::ranges::find(floating, name) != floating.end())
    return Error{ErrorKind::unsupported,
                 in_single_quotes(name) + ": uprobes cannot read floating-point registers"}
        .hint("read integers and pointers instead, or the number in memory: x:double@arg0+8; arg0, "
              "arg1, … do not count floating-point arguments");
  Error error = usage("unknown type " + in_single_quotes(name));
  if (const auto meant = type_habit(name))
    return std::move(error).hint(did_you_mean({std::string(*meant)}));
  std::vector<std::string> names;
  names.reserve(argument_types.size());
  for (const TypeName& each : argument_types) names.emplace_back(each.name);
  if (const auto near = nearest(name, names); !near.empty())
    return std::move(error).hint(did_you_mean(near));
  return std::move(error).hint(
      "valid types are s8 … s64, u8 … u64, x8 … x64, ptr, bool, char, str, "
      "cxxstring, jstring, buf[N] and those of C, such as int, size_t and char*");
}

// The parts of a type: "s32[2]", "buf[len]", "x32{|O_RDWR=2}".
struct TypeParts {
  std::string_view name;
  std::optional<std::string_view> length;
  std::optional<std::string_view> names;
};

Result<TypeParts> split_type(std::string_view text) {
  TypeParts parts;
  if (const auto brace = text.find('{'); brace != std::string_view::npos) {
    if (!text.ends_with('}')) return fail(usage(in_single_quotes(text) + ": missing '}'"));
    parts.names = text.substr(brace + 1, text.size() - brace - 2);
    text = text.substr(0, brace);
  }
  if (const auto bracket = text.find('['); bracket != std::string_view::npos) {
    if (!text.ends_with(']')) return fail(usage(in_single_quotes(text) + ": missing ']'"));
    parts.length = text.substr(bracket + 1, text.size() - bracket - 2);
    text = text.substr(0, bracket);
  }
  parts.name = text;
  return parts;
}

// Sets the type, or what another name stands for: "errno", "sockaddr".
Result<void> set_named_type(std::string_view name, bool is_array, ArgumentSpec& spec,
                            std::optional<Presentation>& shown_as) {
  const auto all = named_presentations();
  if (const auto found = std::ranges::find(all, name, &NamedPresentation::name);
      found != all.end()) {
    spec.type = found->type;
    if (found->bytes > 0) spec.length = found->bytes;
    shown_as = Presentation{.kind = found->kind, .type = std::string(name)};
    return {};
  }
  const auto type = parse_type_name(name);
  const bool is_in_memory = is_array || !spec.source.offsets.empty();
  if (!type || (is_floating(*type) && !is_in_memory)) return fail(unknown_type(name));
  spec.type = *type;
  return {};
}

// Makes an integer an array, and a string a text without a NUL at its end.
Result<void> set_length(std::string_view text, const TypeParts& parts, ArgumentSpec& spec,
                        std::optional<Presentation>& shown_as) {
  using Kind = Presentation::Kind;
  const auto length = *parts.length;
  const bool is_text = spec.type == ArgumentType::string;
  constexpr std::string_view up_to = "..";
  if (is_text && length.starts_with(up_to) && is_identifier(length.substr(up_to.size()))) {
    spec.length_from = length.substr(up_to.size()); // still a string
    return {};
  }
  if (shown_as ? spec.type != ArgumentType::bytes || shown_as->kind == Kind::ipv6_address
               : is_memory(spec.type) && spec.type != ArgumentType::bytes && !is_text)
    return fail(usage(fmt::format("{}: {} has no length", in_single_quotes(text), parts.name)));
  if (!is_memory(spec.type)) {
    shown_as = Presentation{.kind = Kind::array, .type = std::string(text), .element = spec.type};
    spec.element_size = size_of(spec.type, 8);
  } else if (is_text) {
    shown_as = Presentation{.kind = Kind::text, .type = std::string(text)};
  }
  spec.type = ArgumentType::bytes;
  if (const auto number = parse_unsigned(length)) {
    const std::uint32_t most = max_argument_bytes / spec.element_size;
    if (*number == 0 || *number > most)
      return fail(usage(
          fmt::format("{}: invalid length (expected 1 to {})", in_single_quotes(text), most)));
    spec.length = static_cast<std::uint32_t>(*number) * spec.element_size;
  } else if (is_identifier(length)) {
    spec.length_from = length;
  } else {
    return fail(usage(in_single_quotes(text) +
                      ": invalid length (expected a number or the name of an argument)"));
  }
  return {};
}

// "u32", "buf[16]", "buf[len]", "x32{|O_RDWR=2}", "sockaddr".
Result<void> parse_type(std::string_view text, ArgumentSpec& spec) {
  const auto parts = split_type(text);
  if (!parts) return fail(parts.error());
  std::optional<Presentation> shown_as;
  if (auto set = set_named_type(parts->name, parts->length.has_value(), spec, shown_as); !set)
    return set;
  if (parts->length)
    if (auto set = set_length(text, *parts, spec, shown_as); !set) return set;
  if (parts->names) {
    if (shown_as || is_memory(spec.type) || is_floating(spec.type))
      return fail(usage(in_single_quotes(text) + ": only integers can have names"));
    auto named = parse_names(*parts->names);
    if (!named) return fail(std::move(named).error());
    named->type = parts->name;
    shown_as = std::move(*named);
  }
  if (shown_as) spec.shown_as = std::make_shared<const Presentation>(std::move(*shown_as));
  return {};
}

Result<std::int64_t> parse_offset(std::string_view text, std::string_view whole) {
  const bool is_negative = text.starts_with('-');
  const auto offset = parse_unsigned(text.substr(is_negative ? 1 : 0));
  if (!offset || *offset > std::uint64_t{1} << 40)
    return fail(usage(in_single_quotes(whole) + ": invalid offset"));
  const auto distance = static_cast<std::int64_t>(*offset);
  return is_negative ? -distance : distance;
}

// "arg2", "ret", "rax", "arg2+0x10", "arg2+8->16", "&arg2+0x10". `part`: see parse_argument().
Result<ArgumentSource> parse_source(std::string_view text, std::string_view& part) {
  std::string_view rest = text;
  const bool address = rest.starts_with('&');
  if (address) rest.remove_prefix(1);
  const auto end = std::min(rest.find_first_of("+-"), rest.size());
  auto source = parse_source_name(rest.substr(0, end));
  if (!source)
    return fail(usage(in_single_quotes(text) + " does not name a value")
                    .hint("use arg0, arg1, …, ret or a register, with or without +OFFSET"));
  rest.remove_prefix(end);
  while (!rest.empty()) {
    part = rest;
    if (rest.starts_with("->"))
      rest.remove_prefix(2);
    else if (rest.starts_with('+') && source->offsets.empty())
      rest.remove_prefix(1);
    else if (!rest.starts_with('-') || !source->offsets.empty())
      return fail(usage(in_single_quotes(text) + ": expected '->' and an offset at " +
                        in_single_quotes(rest)));
    part = rest;
    const auto next = std::min(rest.find("->"), rest.size());
    const auto offset = parse_offset(rest.substr(0, next), text);
    if (!offset) return fail(offset.error());
    rest.remove_prefix(next);
    if (!address) {
      source->offsets.push_back(*offset);
    } else if (rest.empty()) {
      source->addend = *offset;
    } else {
      return fail(usage(in_single_quotes(text) + ": '&' cannot be followed by '->'"));
    }
  }
  return std::move(*source);
}

bool is_same_source(const ArgumentSource& a, const ArgumentSource& b) {
  if (a.kind != b.kind) return false;
  if (a.kind == ArgumentSource::Kind::machine_register)
    return register_number(a.register_name) == register_number(b.register_name);
  return a.kind == ArgumentSource::Kind::returned || a.number == b.number;
}

// Returns the argument, return value or register that the NAME stands for by itself.
std::optional<ArgumentSource> source_by_name(std::string_view name) {
  auto source = parse_source_name(name);
  if (source && source->kind == ArgumentSource::Kind::machine_register &&
      !find_register_by_argument_name(name))
    return std::nullopt;
  return source;
}

// Whether the name is that of an argument beyond the supported ones, "arg99".
bool is_excess_argument(std::string_view name) {
  return name.starts_with("arg") && has_only_digits(name.substr(3)) && !parse_source_name(name);
}

// Sets the source of an argument without "@" from its NAME, or else from its position.
Result<void> set_source_by_name(ArgumentSpec& spec, std::uint32_t position,
                                std::vector<std::string>& warnings) {
  if (is_excess_argument(spec.name))
    return fail(usage(in_single_quotes(spec.name) + " does not name a value")
                    .hint("use arg0 to arg63, or another name with a source, as in " +
                          in_single_quotes("name:u64@arg0")));
  if (auto source = source_by_name(spec.name)) {
    spec.source = std::move(*source);
    // "dx:s32,dy:s32" may be intended as the names of parameters.
    if (is_ambiguous_register(spec.name) && argument_in_register(spec.name) != position)
      warnings.push_back("--args: " + in_single_quotes(spec.name) +
                         " is read from the register of this name: write " +
                         in_single_quotes(spec.name + ":TYPE@arg" + std::to_string(position)) +
                         " for argument " + std::to_string(position));
    return {};
  }
  spec.source.number = position;
  spec.by_position = true;
  const auto other = find_other_arch_register(spec.name);
  if (other && other->argument != position)
    warnings.push_back("--args: " + in_single_quotes(spec.name) + " is a register of " +
                       std::string(other->machine) + ", not of this machine: it is read from arg" +
                       std::to_string(position) + ", by its position");
  return {};
}

// Parses "NAME:TYPE[@SOURCE]". `position` is the number of the argument that is read if neither
// NAME nor SOURCE decides, and is advanced to the next one. `part` is the part of the text that an
// error is about.
Result<ArgumentSpec> parse_argument(std::string_view text, std::uint32_t& position,
                                    std::vector<std::string>& warnings, std::string_view& part) {
  ArgumentSpec spec;
  const auto colon = text.find(':');
  if (colon == std::string_view::npos) {
    Error error = usage(in_single_quotes(text) + ": missing type (expected for example fd:s32)");
    if (auto hint = value_habit(text)) error = std::move(error).hint(std::move(*hint));
    return fail(std::move(error));
  }
  spec.name = text.substr(0, colon);
  const auto numbered = parse_source_name("arg" + spec.name);
  if (!numbered && !is_identifier(spec.name))
    return fail(usage("invalid argument name " + in_single_quotes(spec.name))
                    .hint("use letters, digits and underscores, or the number of an argument"));
  std::string_view type = part = text.substr(colon + 1);
  const auto at = type.find('@');
  if (numbered) {
    if (at != std::string_view::npos)
      return fail(usage(in_single_quotes(text) + " has both a number and a source"));
    spec.name.insert(0, "arg");
    spec.by_number = true;
    spec.source = *numbered;
    position = numbered->number;
  } else if (at != std::string_view::npos) {
    part = type.substr(at + 1);
    auto source = parse_source(part, part);
    if (!source) return fail(std::move(source).error());
    spec.source = std::move(*source);
    if (const auto named = source_by_name(spec.name); named && !is_same_source(*named, spec.source))
      warnings.push_back("--args: " + in_single_quotes(spec.name) + " is read from " +
                         std::string(type.substr(at + 1)) + ", not from what the name says");
    type = type.substr(0, at);
  } else {
    if (auto placed = set_source_by_name(spec, position, warnings); !placed)
      return fail(std::move(placed).error());
    // In "arg3:s32,next:s32" the second is arg4.
    if (!spec.by_position && spec.source.kind == ArgumentSource::Kind::argument)
      position = spec.source.number;
  }
  if (spec.source.kind != ArgumentSource::Kind::returned) ++position;
  part = type;
  if (auto parsed = parse_type(type, spec); !parsed) return fail(std::move(parsed).error());
  return spec;
}

Result<void> check_lengths(const std::vector<ArgumentSpec>& arguments) {
  for (auto spec = arguments.begin(); spec != arguments.end(); ++spec) {
    if (!spec->length_from) continue;
    const ArgumentSpec* const length = find_argument(arguments, *spec->length_from);
    if (length == nullptr)
      return fail(
          usage(in_single_quotes(*spec->length_from) + ": the list has no argument of this name"));
    if (is_memory(length->type))
      return fail(usage(in_single_quotes(*spec->length_from) +
                        " is not an integer, so it cannot be a length"));
  }
  return {};
}

} // namespace

std::string_view to_string(ArgumentType type) {
  return std::ranges::find(argument_types, type, &TypeName::type)->name;
}

std::optional<ArgumentType> parse_type_name(std::string_view name) {
  const auto* const found = std::ranges::find(argument_types, name, &TypeName::name);
  if (found == argument_types.end()) return parse_c_type_name(name);
  return found->type;
}

bool is_floating(ArgumentType type) {
  return type == ArgumentType::f32 || type == ArgumentType::f64;
}

std::uint32_t size_of(ArgumentType type, std::uint32_t pointer_size) {
  switch (type) {
  case ArgumentType::s8:
  case ArgumentType::u8:
  case ArgumentType::x8:
  case ArgumentType::boolean:
  case ArgumentType::character:
    return 1;
  case ArgumentType::s16:
  case ArgumentType::u16:
  case ArgumentType::x16:
    return 2;
  case ArgumentType::s32:
  case ArgumentType::u32:
  case ArgumentType::x32:
  case ArgumentType::f32:
  case ArgumentType::java_string: // a reference of ART's heap, which lies below 4 GiB
    return 4;
  case ArgumentType::s64:
  case ArgumentType::u64:
  case ArgumentType::x64:
  case ArgumentType::f64:
    return 8;
  case ArgumentType::ptr:
  case ArgumentType::string:
  case ArgumentType::cxx_string:
  case ArgumentType::bytes:
    break;
  }
  return pointer_size;
}

bool is_signed(ArgumentType type) {
  return type == ArgumentType::s8 || type == ArgumentType::s16 || type == ArgumentType::s32 ||
         type == ArgumentType::s64;
}

bool is_memory(ArgumentType type) {
  return type == ArgumentType::string || type == ArgumentType::cxx_string ||
         type == ArgumentType::java_string || type == ArgumentType::bytes;
}

namespace {

// Finds the first or last character that is not between braces, which hold the names of numbers.
std::size_t find_outside_braces(std::string_view text, char wanted, bool last) {
  std::size_t found = std::string_view::npos;
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '{') ++depth;
    if (text[i] == '}') --depth;
    if (text[i] != wanted || depth > 0) continue;
    found = i;
    if (!last) break;
  }
  return found;
}

Result<void> parse_element(std::string_view element, std::uint32_t& position, ArgumentList& list,
                           std::string_view& part) {
  // A path has no type after it.
  const std::string_view text = trimmed(element, " ");
  if (!text.empty() && find_path_end(text) == text.size()) {
    auto path = parse_value_path(text);
    if (!path) return fail(std::move(path).error());
    list.order.push_back(path->text);
    list.paths.push_back(std::move(*path));
    return {};
  }
  auto spec = parse_argument(text, position, list.warnings, part);
  if (!spec) return fail(std::move(spec).error());
  list.order.push_back(spec->name);
  list.arguments.push_back(std::move(*spec));
  return {};
}

Result<void> check_list(const ArgumentList& list) {
  std::set<std::string_view> names;
  for (const std::string& name : list.order)
    if (!names.insert(name).second)
      return fail(usage("two arguments have the name " + in_single_quotes(name)));
  return check_lengths(list.arguments);
}

} // namespace

Result<void> check_selectors(const ArgumentList& list) {
  for (std::size_t i = 0; i < list.arguments.size(); ++i) {
    const auto& shown_as = list.arguments[i].shown_as;
    if (shown_as == nullptr || shown_as->selector.empty()) continue;
    const ArgumentSpec* const found =
        find_argument(std::span(list.arguments).first(i), shown_as->selector);
    if (found == nullptr || is_memory(found->type))
      return fail(usage("no integer " + in_single_quotes(shown_as->selector) + " before " +
                        in_single_quotes(list.arguments[i].name)));
  }
  return {};
}

Result<ArgumentList> parse_arguments(std::string_view text, std::optional<std::size_t>* error_at) {
  ArgumentList list;
  const char* const begin = text.data();
  // The last '=': the FUNCTION may be a C++ operator such as operator==, a list has none.
  if (const auto equals = find_outside_braces(text, '=', true); equals != std::string_view::npos) {
    if (equals == 0) return fail(usage("no function before '='"));
    list.function = text.substr(0, equals);
    text.remove_prefix(equals + 1);
  }
  std::uint32_t position = 0;
  for (;;) {
    const auto comma = find_outside_braces(text, ',', false);
    if (list.order.size() == max_arguments)
      return fail(usage("more than " + std::to_string(max_arguments) + " arguments"));
    std::string_view part = text;
    if (auto element = parse_element(text.substr(0, comma), position, list, part); !element) {
      if (error_at != nullptr) *error_at = static_cast<std::size_t>(part.data() - begin);
      return fail(std::move(element).error());
    }
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  if (auto checked = check_list(list); !checked) return fail(std::move(checked).error());
  return list;
}

} // namespace uprobectl::events
