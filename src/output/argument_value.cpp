#include "output/argument_value.hpp"

#include "output/data_value.hpp"
#include "output/escape.hpp"
#include "output/json_record.hpp"

#include <bit>

namespace uprobectl {

namespace {

DataValue data_of(const ArgumentValue& argument) {
  switch (argument.type) {
  case ArgumentType::s8:
  case ArgumentType::s16:
  case ArgumentType::s32:
  case ArgumentType::s64:
    return {static_cast<std::int64_t>(argument.number)};
  case ArgumentType::u8:
  case ArgumentType::u16:
  case ArgumentType::u32:
  case ArgumentType::u64:
    return {argument.number};
  case ArgumentType::x8:
  case ArgumentType::x16:
  case ArgumentType::x32:
  case ArgumentType::x64:
  case ArgumentType::ptr:
    return {DataValue::Pointer{argument.number}};
  case ArgumentType::f32:
    return {double{std::bit_cast<float>(static_cast<std::uint32_t>(argument.number))}};
  case ArgumentType::f64:
    return {std::bit_cast<double>(argument.number)};
  case ArgumentType::boolean:
    return {argument.number != 0};
  case ArgumentType::character:
    return {std::string(1, static_cast<char>(argument.number))};
  case ArgumentType::string:
  case ArgumentType::cxx_string:
  case ArgumentType::java_string:
    return {argument.bytes};
  case ArgumentType::bytes:
    break;
  }
  const Bytes bytes = std::as_bytes(std::span(argument.bytes));
  return {DataValue::Raw{{bytes.begin(), bytes.end()}}};
}

void append_json_text(std::string& out, std::string_view text) {
  out += '"';
  append_json(out, text);
  out += '"';
}

} // namespace

void append_json_value(std::string& out, const ArgumentValue& argument) {
  if (argument.error)
    out += "null";
  else
    append_json_value(out, data_of(argument));
}

namespace {

void append_typed(std::string& out, std::span<const ArgumentValue> arguments) {
  out += '[';
  for (const ArgumentValue& argument : arguments) {
    if (out.back() != '[') out += ',';
    out += "{\"name\":";
    append_json_text(out, argument.name);
    out += ",\"type\":";
    append_json_text(out, to_string(argument.type));
    out += ",\"value\":";
    append_json_value(out, argument);
    out += ",\"error\":";
    if (argument.error)
      append_json_text(out, *argument.error);
    else
      out += "null";
    if (is_memory(argument.type))
      out += argument.truncated ? ",\"truncated\":true" : ",\"truncated\":false";
    out += '}';
  }
  out += ']';
}

// The six registers that are recorded where nothing was asked for: what most events have.
void append_six(std::string& out, std::span<const std::uint64_t> arguments) {
  out += '[';
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    out += i == 0 ? "{\"name\":\"arg" : ",{\"name\":\"arg";
    append_decimal(out, i);
    out += "\",\"type\":\"x64\",\"value\":\"";
    append_hex(out, arguments[i]);
    out += "\",\"error\":null}";
  }
  out += ']';
}

} // namespace

void append_json_arguments(std::string& out, const Event& event) {
  if (event.typed)
    append_typed(out, *event.typed);
  else if (event.has_arguments)
    append_six(out, event.arguments);
  else
    out += "null";
}

void append_json_registers(std::string& out, std::span<const std::uint64_t> registers) {
  if (registers.empty()) {
    out += "null";
    return;
  }
  for (std::size_t i = 0; i < registers.size(); ++i) {
    out += i == 0 ? "{\"" : ",\"";
    out += register_names()[i];
    out += "\":\"";
    append_hex(out, registers[i]);
    out += '"';
  }
  out += '}';
}

void append_text_value(std::string& out, const ArgumentValue& argument) {
  if (argument.error) {
    out += '<';
    append_printable(out, *argument.error);
    out += '>';
    return;
  }
  if (argument.type == ArgumentType::character) {
    append_quoted(out, std::string(1, static_cast<char>(argument.number)), '\'');
  } else {
    append_text_value(out, data_of(argument));
  }
  if (argument.truncated) out += "…";
}

void append_text_arguments(std::string& out, std::span<const ArgumentValue> arguments) {
  bool first = true;
  for (const ArgumentValue& argument : arguments) {
    if (!std::exchange(first, false)) out += ' ';
    out += argument.name;
    out += '=';
    append_text_value(out, argument);
  }
}

} // namespace uprobectl
