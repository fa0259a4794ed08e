// SPDX-License-Identifier: Apache-2.0
#include "events/arguments.hpp"
#include "events/readings.hpp"
#include "util/numbers.hpp"
#include "util/spelling.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <array>
#include <set>

namespace uprobectl {

std::optional<std::uint64_t> parse_unsigned(std::string_view text) {
  int base = 10;
  if (text.starts_with("0x")) {
    base = 16;
    text.remove_prefix(2);
  }
  return parse_number<std::uint64_t>(text, base);
}

bool is_identifier(std::string_view text) {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  return !text.empty() && is_letter(text.front()) &&
         std::ranges::all_of(text, [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
}

std::string in_single_quotes(std::string_view text) { return "'" + std::string(text) + "'"; }

std::optional<ArgumentSource> parse_source_name(std::string_view name) {
  ArgumentSource source;
  if (name == "ret") {
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
constexpr std::array type_names = {
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

// Types as C has them, on machines with 64-bit pointers.
constexpr std::array c_type_names = {
    TypeName{"signed char", ArgumentType::s8},
    TypeName{"unsigned char", ArgumentType::u8},
    TypeName{"short", ArgumentType::s16},
    TypeName{"unsigned short", ArgumentType::u16},
    TypeName{"int", ArgumentType::s32},
    TypeName{"unsigned", ArgumentType::u32},
    TypeName{"unsigned int", ArgumentType::u32},
    TypeName{"long", ArgumentType::s64},
    TypeName{"unsigned long", ArgumentType::u64},
    TypeName{"long long", ArgumentType::s64},
    TypeName{"unsigned long long", ArgumentType::u64},
    TypeName{"float", ArgumentType::f32},
    TypeName{"double", ArgumentType::f64},
    TypeName{"short int", ArgumentType::s16},
    TypeName{"short unsigned int", ArgumentType::u16},
    TypeName{"long int", ArgumentType::s64},
    TypeName{"long unsigned int", ArgumentType::u64},
    TypeName{"long long int", ArgumentType::s64},
    TypeName{"long long unsigned int", ArgumentType::u64},
    TypeName{"size_t", ArgumentType::u64},
    TypeName{"ssize_t", ArgumentType::s64},
    TypeName{"off_t", ArgumentType::s64},
    TypeName{"ptrdiff_t", ArgumentType::s64},
    TypeName{"intptr_t", ArgumentType::s64},
    TypeName{"uintptr_t", ArgumentType::u64},
    TypeName{"int8_t", ArgumentType::s8},
    TypeName{"int16_t", ArgumentType::s16},
    TypeName{"int32_t", ArgumentType::s32},
    TypeName{"int64_t", ArgumentType::s64},
    TypeName{"uint8_t", ArgumentType::u8},
    TypeName{"uint16_t", ArgumentType::u16},
    TypeName{"uint32_t", ArgumentType::u32},
    TypeName{"uint64_t", ArgumentType::u64},
    TypeName{"pid_t", ArgumentType::s32},
    TypeName{"std::string", ArgumentType::cxx_string},
};

std::string_view without_const(std::string_view name) {
  name = trimmed(name, " ");
  if (name.starts_with("const ")) name = trimmed(name.substr(6), " ");
  if (name.ends_with(" const")) name = trimmed(name.substr(0, name.size() - 6), " ");
  return name;
}

// "char*" is a string, other pointers are addresses.
std::optional<ArgumentType> parse_c_type_name(std::string_view name) {
  name = without_const(name);
  if (name.ends_with('*')) {
    const std::string_view target = without_const(name.substr(0, name.size() - 1));
    if (target.empty()) return std::nullopt;
    return target == "char" ? ArgumentType::string : ArgumentType::ptr;
  }
  if (name.ends_with('&') && without_const(name.substr(0, name.size() - 1)) == "std::string")
    return ArgumentType::cxx_string;
  const auto* const found = std::ranges::find(c_type_names, name, &TypeName::name);
  if (found == c_type_names.end()) return std::nullopt;
  return found->type;
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
  std::vector<std::string> names;
  names.reserve(type_names.size());
  for (const TypeName& each : type_names) names.emplace_back(each.name);
  if (const auto near = nearest(name, names); !near.empty())
    return std::move(error).hint(did_you_mean(near));
  return std::move(error).hint(
      "valid types are s8 … s64, u8 … u64, x8 … x64, ptr, bool, char, str, "
      "cxxstring, jstring, buf[N] and those of C, such as int, size_t and char*");
}

// "u32", "buf[16]", "buf[len]", "buf".
Result<void> parse_type(std::string_view text, ArgumentSpec& spec) {
  std::string_view name = text;
  std::optional<std::string_view> length;
  if (const auto bracket = text.find('['); bracket != std::string_view::npos) {
    if (!text.ends_with(']')) return fail(usage(in_single_quotes(text) + ": missing ']'"));
    name = text.substr(0, bracket);
    length = text.substr(bracket + 1, text.size() - bracket - 2);
  }
  const auto type = parse_type_name(name);
  if (!type || (is_floating(*type) && !spec.source.memory)) return fail(unknown_type(name));
  spec.type = *type;
  if (!length) return {};
  if (*type != ArgumentType::bytes)
    return fail(usage(in_single_quotes(text) + ": only buf can have a length"));
  if (const auto number = parse_unsigned(*length)) {
    if (*number == 0 || *number > max_argument_bytes)
      return fail(usage(in_single_quotes(text) + ": invalid buffer length (expected 1 to " +
                        std::to_string(max_argument_bytes) + ")"));
    spec.length = static_cast<std::uint32_t>(*number);
  } else if (is_identifier(*length)) {
    spec.length_from = *length;
  } else {
    return fail(usage(in_single_quotes(text) +
                      ": invalid buffer length (expected a number or the name of an argument)"));
  }
  return {};
}

// "arg2", "ret", "rax", "arg2+0x10", "&arg2+0x10".
Result<ArgumentSource> parse_source(std::string_view text) {
  std::string_view rest = text;
  const bool address = rest.starts_with('&');
  if (address) rest.remove_prefix(1);
  const auto sign = rest.find_first_of("+-");
  auto source = parse_source_name(rest.substr(0, sign));
  if (!source)
    return fail(usage(in_single_quotes(text) + " does not name a value")
                    .hint("use arg0, arg1, …, ret or a register, with or without +OFFSET"));
  if (sign == std::string_view::npos) return std::move(*source);
  const auto offset = parse_unsigned(rest.substr(sign + 1));
  if (!offset || *offset > std::uint64_t{1} << 40)
    return fail(usage(in_single_quotes(text) + ": invalid offset"));
  const auto distance = static_cast<std::int64_t>(*offset);
  (address ? source->addend : source->memory.emplace()) = rest[sign] == '-' ? -distance : distance;
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
  return name.starts_with("arg") && name.size() > 3 &&
         std::ranges::all_of(name.substr(3), [](char c) { return c >= '0' && c <= '9'; }) &&
         !parse_source_name(name);
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
// NAME nor SOURCE decides, and is advanced to the next one.
Result<ArgumentSpec> parse_argument(std::string_view text, std::uint32_t& position,
                                    std::vector<std::string>& warnings) {
  ArgumentSpec spec;
  const auto colon = text.find(':');
  if (colon == std::string_view::npos)
    return fail(usage(in_single_quotes(text) + ": missing type (expected for example fd:s32)"));
  spec.name = text.substr(0, colon);
  const auto numbered = parse_source_name("arg" + spec.name);
  if (!numbered && !is_identifier(spec.name))
    return fail(usage("invalid argument name " + in_single_quotes(spec.name))
                    .hint("use letters, digits and underscores, or the number of an argument"));
  std::string_view type = text.substr(colon + 1);
  const auto at = type.find('@');
  if (numbered) {
    if (at != std::string_view::npos)
      return fail(usage(in_single_quotes(text) + " has both a number and a source"));
    spec.name.insert(0, "arg");
    spec.by_number = true;
    spec.source = *numbered;
    position = numbered->number;
  } else if (at != std::string_view::npos) {
    auto source = parse_source(type.substr(at + 1));
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
  if (auto parsed = parse_type(type, spec); !parsed) return fail(std::move(parsed).error());
  return spec;
}

Result<void> check_lengths(const std::vector<ArgumentSpec>& arguments) {
  for (auto spec = arguments.begin(); spec != arguments.end(); ++spec) {
    if (!spec->length_from) continue;
    const auto length = std::ranges::find(arguments, *spec->length_from, &ArgumentSpec::name);
    if (length == arguments.end())
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
  return std::ranges::find(type_names, type, &TypeName::type)->name;
}

std::optional<ArgumentType> parse_type_name(std::string_view name) {
  const auto* const found = std::ranges::find(type_names, name, &TypeName::name);
  if (found == type_names.end()) return parse_c_type_name(name);
  return found->type;
}

bool is_floating(ArgumentType type) {
  return type == ArgumentType::f32 || type == ArgumentType::f64;
}

bool is_memory(ArgumentType type) {
  return type == ArgumentType::string || type == ArgumentType::cxx_string ||
         type == ArgumentType::java_string || type == ArgumentType::bytes;
}

namespace {

// Whether an element of a list is a path: it has no type behind a colon. "::" is part of a name.
bool is_path(std::string_view element) {
  for (std::size_t at = element.find(':'); at != std::string_view::npos;
       at = element.find(':', at + 2))
    if (!element.substr(at).starts_with("::")) return false;
  return find_path_end(element) == element.size() && !element.empty();
}

Result<void> parse_element(std::string_view element, std::uint32_t& position, ArgumentList& list) {
  if (is_path(trimmed(element, " "))) {
    auto path = parse_value_path(trimmed(element, " "));
    if (!path) return fail(std::move(path).error());
    list.paths.push_back(std::move(*path));
    return {};
  }
  auto spec = parse_argument(element, position, list.warnings);
  if (!spec) return fail(std::move(spec).error());
  list.arguments.push_back(std::move(*spec));
  return {};
}

Result<void> check_list(const ArgumentList& list) {
  std::set<std::string_view> names;
  const auto check_name = [&](const std::string& name) -> Result<void> {
    if (names.insert(name).second) return {};
    return fail(usage("two arguments have the name " + in_single_quotes(name)));
  };
  for (const ArgumentSpec& spec : list.arguments)
    if (auto checked = check_name(spec.name); !checked) return checked;
  for (const ValuePath& path : list.paths)
    if (auto checked = check_name(path.text); !checked) return checked;
  if (!list.arguments.empty() && !list.paths.empty())
    return fail(usage(in_single_quotes(list.paths.front().text) + " has no type, but " +
                      in_single_quotes(list.arguments.front().name) + " has")
                    .hint("write all of them with a type, as in fd:s32, or all without, as debug "
                          "information has them"));
  return check_lengths(list.arguments);
}

} // namespace

Result<ArgumentList> parse_arguments(std::string_view text) {
  ArgumentList list;
  // The last '=': the FUNCTION may be a C++ operator such as operator==, a list has none.
  if (const auto equals = text.rfind('='); equals != std::string_view::npos) {
    if (equals == 0) return fail(usage("no function before '='"));
    list.function = text.substr(0, equals);
    text.remove_prefix(equals + 1);
  }
  std::uint32_t position = 0;
  for (;;) {
    const auto comma = text.find(',');
    if (list.arguments.size() + list.paths.size() == max_arguments)
      return fail(usage("more than " + std::to_string(max_arguments) + " arguments"));
    if (auto element = parse_element(text.substr(0, comma), position, list); !element)
      return fail(std::move(element).error());
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  if (auto checked = check_list(list); !checked) return fail(std::move(checked).error());
  return list;
}

} // namespace uprobectl
