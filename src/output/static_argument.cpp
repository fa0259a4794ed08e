#include "output/static_argument.hpp"

#include "output/json_record.hpp"

#include <fmt/format.h>

namespace uprobectl {

namespace {

using Kind = StaticArgument::Kind;
using IndexPart = StaticArgument::IndexPart;

// The bytes that the note says; all, where it says none.
DataValue constant_value(const StaticArgument& argument) {
  const std::uint32_t size = argument.size.value_or(argument.width);
  std::uint64_t value = argument.constant;
  if (size > 8) return DataValue{static_cast<std::int64_t>(value)};
  const std::uint32_t unused = 64 - 8 * size;
  value <<= unused;
  if (argument.is_signed) return DataValue{static_cast<std::int64_t>(value) >> unused};
  return DataValue{value >> unused};
}

template <typename T>
std::optional<T> only_if(bool there, T value) {
  return there ? std::optional(std::move(value)) : std::nullopt;
}

std::optional<std::string_view> extension_of(const StaticArgument& argument) {
  if (argument.index_part == IndexPart::low_word) return "unsigned";
  if (argument.index_part == IndexPart::signed_low_word) return "signed";
  return std::nullopt;
}

void append_json_argument(std::string& out, const StaticArgument& argument) {
  const bool in_memory = argument.kind == Kind::in_memory;
  const bool indexed = in_memory && !argument.index.empty();
  out += "{\"raw\":\"";
  append_json(out, argument.raw);
  out += '"';
  JsonRecord record(out);
  record.field("kind", to_string(argument.kind));
  record.field("size", argument.size);
  record.field("signed", argument.is_signed);
  record.field("float", argument.is_float);
  record.field("register", only_if(!argument.base.empty(), argument.base));
  record.field("shift", only_if(argument.kind == Kind::in_register, argument.shift));
  record.field("index", only_if(indexed, argument.index));
  record.field("scale", only_if(indexed, argument.scale));
  record.field("index_extension", extension_of(argument));
  record.field("displacement",
               only_if(in_memory && !argument.address, DataValue{argument.displacement}));
  record.field("address", argument.address);
  record.field("constant", only_if(argument.kind == Kind::constant, constant_value(argument)));
  record.field("problem", only_if(!argument.problem.empty(), argument.problem));
  out += '}';
}

std::string size_text(const StaticArgument& argument) {
  if (!argument.size) return "?";
  const char* const type = argument.is_float ? "f" : argument.is_signed ? "s" : "u";
  return type + std::to_string(std::uint64_t{*argument.size} * 8);
}

std::string place_text(const StaticArgument& argument) {
  std::string text =
      argument.address ? fmt::format("{:#x}", argument.address->value) : argument.base;
  if (!argument.index.empty()) {
    text += text.empty() ? "" : "+";
    if (const auto extension = extension_of(argument)) text += fmt::format("{} ", *extension);
    text += fmt::format("{}*{}", argument.index, argument.scale);
  }
  const auto away = static_cast<std::uint64_t>(argument.displacement);
  if (text.empty()) return fmt::format("{:#x}", away);
  if (argument.displacement < 0) text += fmt::format("-{:#x}", 0 - away);
  if (argument.displacement > 0) text += fmt::format("+{:#x}", away);
  return text;
}

std::string parsed_text(const StaticArgument& argument) {
  switch (argument.kind) {
  case Kind::constant: {
    std::string number;
    append_text_value(number, constant_value(argument));
    return fmt::format("{} {}", size_text(argument), number);
  }
  case Kind::in_register:
    return fmt::format("{} {}{}", size_text(argument), argument.base,
                       argument.shift == 0 ? "" : fmt::format(">>{}", argument.shift));
  case Kind::in_memory:
    return fmt::format("{} [{}]", size_text(argument), place_text(argument));
  case Kind::out_of_reach:
  case Kind::unparsed:
    return fmt::format("{} <{}>", size_text(argument), argument.problem);
  }
  return {};
}

} // namespace

void append_json_static_arguments(std::string& out, std::span<const StaticArgument> arguments) {
  out += '[';
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (i != 0) out += ',';
    append_json_argument(out, arguments[i]);
  }
  out += ']';
}

std::string marked_arguments(const ProbePoint& point) {
  const StaticProbe& probe = *point.static_probe;
  bool any = false;
  std::string text;
  for (const StaticArgument& argument : probe.arguments) {
    if (!text.empty()) text += ' ';
    if (argument.kind == Kind::unparsed) text += '?';
    if (argument.kind == Kind::out_of_reach) text += '!';
    any = any || argument.kind == Kind::unparsed || argument.kind == Kind::out_of_reach;
    text += argument.raw;
  }
  return any && can_parse_static_arguments(point.binary->machine) ? text : probe.raw_arguments;
}

std::string parsed_arguments(std::span<const StaticArgument> arguments) {
  std::string text;
  for (const StaticArgument& argument : arguments) {
    if (!text.empty()) text += ", ";
    text += parsed_text(argument);
  }
  return text;
}

std::string shown_semaphore(const ProbePoint& point) {
  const StaticProbe& probe = *point.static_probe;
  if (point.semaphore) return fmt::format("{:#x}", point.semaphore->value);
  // Compressed in its archive: the offset in the library, as for the probe itself.
  if (probe.semaphore_offset) return fmt::format("{:#x}", probe.semaphore_offset->value);
  return "-";
}

} // namespace uprobectl
