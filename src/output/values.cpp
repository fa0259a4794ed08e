// SPDX-License-Identifier: Apache-2.0
#include "output/values.hpp"

#include "events/readings.hpp"
#include "output/descriptions.hpp"
#include "output/format.hpp"
#include "output/json_record.hpp"
#include "output/records.hpp"
#include "uprobectl/path.hpp"

#include <cmath>
#include <fmt/format.h>

namespace uprobectl::output {

namespace {

void append_json_text(std::string& out, std::string_view text) {
  out += '"';
  append_json(out, text);
  out += '"';
}

} // namespace

namespace {

void append_typed(std::string& out, std::span<const events::ArgumentValue> arguments) {
  out += '[';
  for (const events::ArgumentValue& argument : arguments) {
    if (out.back() != '[') out += ',';
    out += "{\"name\":";
    append_json_text(out, argument.name);
    out += ",\"type\":";
    append_json_text(out,
                     argument.type_name.empty() ? std::string_view("x64") : argument.type_name);
    out += ",\"value\":";
    append_json_value(out, argument.value);
    out += ",\"error\":";
    if (const auto error = unread_part(argument.value))
      append_json_text(out, *error);
    else
      out += "null";
    const bool truncated = is_truncated(argument.value);
    if (truncated || argument.is_memory)
      out += truncated ? ",\"truncated\":true" : ",\"truncated\":false";
    out += '}';
  }
  out += ']';
}

// Appends the six integer arguments that are captured by default.
void append_six_integers(std::string& out, std::span<const std::uint64_t> arguments) {
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

void append_json_arguments(std::string& out, std::span<const events::ArgumentValue> arguments) {
  append_typed(out, arguments);
}

void append_json_arguments(std::string& out, const events::Event& event) {
  if (event.typed_arguments)
    append_typed(out, *event.typed_arguments);
  else if (event.has_arguments)
    append_six_integers(out, event.arguments);
  else
    out += "null";
}

void append_json_return(std::string& out, const events::Event& event) {
  if (event.typed_return) return append_json_value(out, event.typed_return->value);
  const bool has_value = event.kind == events::EventKind::on_return &&
                         event.left_by != events::ExitKind::tail_call && !event.returns_nothing;
  if (!has_value) {
    out += "null";
    return;
  }
  out += '"';
  append_hex(out, event.return_value);
  out += '"';
}

void append_json_registers(std::string& out, const events::Event& event) {
  const std::span<const std::uint64_t> registers = event.registers;
  const auto names = events::register_names(event.arch);
  if (registers.empty()) {
    out += "null";
    return;
  }
  for (std::size_t i = 0; i < registers.size(); ++i) {
    out += i == 0 ? "{\"" : ",\"";
    out += names[i];
    out += "\":\"";
    append_hex(out, registers[i]);
    out += '"';
  }
  out += '}';
}

namespace {

// JSON readers that use doubles represent integers up to this exactly.
constexpr std::uint64_t first_inexact = 1ULL << 53;

class JsonValue {
public:
  explicit JsonValue(std::string& out) : out_(out) {}

  void operator()(bool value) { out_ += value ? "true" : "false"; }
  void operator()(std::uint64_t value) {
    fmt::format_to(std::back_inserter(out_), fmt::runtime(value < first_inexact ? "{}" : "\"{}\""),
                   value);
  }
  void operator()(std::int64_t value) {
    const auto limit = static_cast<std::int64_t>(first_inexact);
    const bool exact = value < limit && value > -limit;
    fmt::format_to(std::back_inserter(out_), fmt::runtime(exact ? "{}" : "\"{}\""), value);
  }
  void operator()(double value) {
    if (std::isfinite(value))
      fmt::format_to(std::back_inserter(out_), "{}", value);
    else
      out_ += "null";
  }
  void operator()(const std::string& value) {
    out_ += '"';
    append_json(out_, value);
    out_ += '"';
  }
  void operator()(values::Value::Pointer value) {
    out_ += '"';
    append_hex(out_, value.address);
    out_ += '"';
  }
  void operator()(values::Value::Hex value) { (*this)(values::Value::Pointer{value.number}); }
  void operator()(const values::Value::Raw& value) {
    out_ += '"';
    append_hex_bytes(out_, value.bytes);
    out_ += '"';
  }
  void operator()(const values::Value::Name& name) { (*this)(name.text); }
  void operator()(values::Value::Character value) { (*this)(std::string(1, value.code)); }
  void operator()(const values::Value::Unreadable&) { out_ += "null"; }
  void operator()(const values::Value::TruncatedString& value) { (*this)(value.text); }
  void operator()(values::Value::Omitted) { out_ += "null"; }
  void operator()(const values::Value::Frames& stack) {
    out_ += '[';
    for (const std::string& name : stack.names) {
      if (out_.back() != '[') out_ += ',';
      (*this)(name);
    }
    out_ += ']';
  }
  void operator()(const values::Value::Struct& members) {
    out_ += '{';
    bool first = true;
    add_members(members, first);
    out_ += '}';
  }
  void operator()(const values::Value::Dynamic& value) {
    out_ += '{';
    bool first = true;
    add_members(value.words, first);
    add_members({{"type", {value.type}}}, first);
    if (!value.content.empty()) add_members({{"value", value.content.front()}}, first);
    out_ += '}';
  }
  void operator()(const values::Value::Array& values) {
    out_ += '[';
    bool first = true;
    for (const values::Value& value : values) {
      if (is_left_out(value)) continue;
      if (!std::exchange(first, false)) out_ += ',';
      append_json_value(out_, value);
    }
    out_ += ']';
  }

private:
  // A value that a limit leaves out has no element. Its argument is `truncated`.
  static bool is_left_out(const values::Value& value) {
    return std::holds_alternative<values::Value::Omitted>(value.value);
  }

  void add_members(const values::Value::Struct& members, bool& first) {
    for (const values::ValueMember& member : members) {
      if (is_left_out(member.value)) continue;
      const auto* const nested = std::get_if<values::Value::Struct>(&member.value.value);
      if (member.name.empty() && nested != nullptr) {
        add_members(*nested, first);
        continue;
      }
      if (!std::exchange(first, false)) out_ += ',';
      (*this)(member.name);
      out_ += ':';
      append_json_value(out_, member.value);
    }
  }

  std::string& out_;
};

class TextValue {
public:
  TextValue(std::string& out, bool outermost, std::string_view separator = " ")
      : out_(out), outermost_(outermost), separator_(separator) {}

  void operator()(bool value) { out_ += value ? "true" : "false"; }
  void operator()(std::uint64_t value) { append_decimal(out_, value); }
  void operator()(std::int64_t value) { fmt::format_to(std::back_inserter(out_), "{}", value); }
  void operator()(double value) { fmt::format_to(std::back_inserter(out_), "{}", value); }
  void operator()(const std::string& value) { append_quoted(out_, value, '"'); }
  void operator()(values::Value::Pointer value) { append_hex(out_, value.address); }
  void operator()(values::Value::Hex value) { append_hex(out_, value.number); }
  void operator()(const values::Value::Raw& value) {
    if (value.is_dump) // its rows follow the event
      out_ += fmt::format("{} bytes", value.bytes.size());
    else
      append_hex_bytes(out_, value.bytes);
    if (value.is_truncated) out_ += "…";
  }
  void operator()(const values::Value::Name& name) { append_printable(out_, name.text); }
  void operator()(values::Value::Character value) {
    append_quoted(out_, std::string(1, value.code), '\'');
  }
  void operator()(const values::Value::Unreadable& value) {
    out_ += '<';
    append_printable(out_, value.text.empty() ? value.reason : value.text);
    out_ += '>';
  }
  void operator()(const values::Value::TruncatedString& value) {
    append_quoted(out_, value.text, '"');
    out_ += "…";
  }
  void operator()(values::Value::Omitted) { out_ += "…"; }
  void operator()(const values::Value::Frames& stack) {
    out_ += '[';
    for (std::size_t i = 0; i < stack.names.size(); ++i) {
      if (i != 0) out_ += " < ";
      append_printable(out_, stack.names[i]);
    }
    out_ += ']';
  }
  void operator()(const values::Value::Struct& members) {
    if (!outermost_) out_ += '{';
    bool first = true;
    for (const values::ValueMember& member : members) {
      if (!std::exchange(first, false)) out_ += separator_;
      if (!member.name.empty()) {
        append_printable(out_, member.name);
        out_ += '=';
      }
      std::visit(TextValue(out_, false, separator_), member.value.value);
    }
    if (!outermost_) out_ += '}';
  }
  // *errors.errorString{s="broken"}, time.Month(0xc000012345)
  void operator()(const values::Value::Dynamic& value) {
    append_printable(out_, value.type);
    const values::Value& shown =
        value.content.empty() ? value.words.back().value : value.content.front();
    const bool is_structure = std::holds_alternative<values::Value::Struct>(shown.value);
    if (!is_structure) out_ += '(';
    std::visit(TextValue(out_, false, separator_), shown.value);
    if (!is_structure) out_ += ')';
  }
  void operator()(const values::Value::Array& values) {
    out_ += '[';
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (i != 0) out_ += separator_;
      std::visit(TextValue(out_, false, separator_), values[i].value);
    }
    out_ += ']';
  }

private:
  std::string& out_;
  bool outermost_;
  std::string_view separator_;
};

} // namespace

void append_hex_bytes(std::string& out, Bytes bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  for (const std::byte byte : bytes) {
    out += digits[std::to_integer<unsigned>(byte) >> 4];
    out += digits[std::to_integer<unsigned>(byte) & 0xf];
  }
}

void append_json_value(std::string& out, const values::Value& value) {
  std::visit(JsonValue(out), value.value);
}

void append_text_value(std::string& out, const values::Value& value) {
  std::visit(TextValue(out, true), value.value);
}

void append_text_value(std::string& out, const events::ArgumentValue& argument) {
  std::visit(TextValue(out, false, ", "), argument.value.value);
}

void append_text_arguments(std::string& out, std::span<const events::ArgumentValue> arguments) {
  const bool has_types = std::ranges::any_of(arguments, &events::ArgumentValue::is_from_source);
  bool first = true;
  for (const events::ArgumentValue& argument : arguments) {
    if (!std::exchange(first, false)) out += has_types ? ", " : " ";
    append_printable(out, argument.name);
    out += '=';
    append_text_value(out, argument);
  }
}

void append_call_value(std::string& out, const events::ArgumentValue& argument) {
  if (is_null(argument.value))
    out += "NULL";
  else
    append_text_value(out, argument);
}

void append_call_arguments(std::string& out, std::span<const events::ArgumentValue> arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (i > 0) out += ", ";
    append_call_value(out, arguments[i]);
  }
}

namespace {

using Kind = usdt::StaticArgument::Kind;
using IndexPart = usdt::StaticArgument::IndexPart;

// Returns the constant truncated to the argument's size.
values::Value constant_value(const usdt::StaticArgument& argument) {
  const std::uint32_t size = argument.size.value_or(argument.width);
  std::uint64_t value = argument.constant;
  if (size > 8) return values::Value{static_cast<std::int64_t>(value)};
  const std::uint32_t unused = 64 - 8 * size;
  value <<= unused;
  if (argument.is_signed) return values::Value{static_cast<std::int64_t>(value) >> unused};
  return values::Value{value >> unused};
}

template <typename T>
std::optional<T> optional_if(bool there, T value) {
  return there ? std::optional(std::move(value)) : std::nullopt;
}

std::optional<std::string_view> index_extension(const usdt::StaticArgument& argument) {
  if (argument.index_part == IndexPart::low_word) return "unsigned";
  if (argument.index_part == IndexPart::signed_low_word) return "signed";
  return std::nullopt;
}

void append_json_argument(std::string& out, const usdt::StaticArgument& argument) {
  const bool in_memory = argument.kind == Kind::in_memory;
  const bool indexed = in_memory && !argument.index.empty();
  JsonRecord::append_object(out, [&](JsonRecord& record) {
    record.key("raw", argument.raw);
    record.key("kind", to_string(argument.kind));
    record.key("size", argument.size);
    record.key("signed", argument.is_signed);
    record.key("float", argument.is_float);
    record.key("register", optional_if(!argument.base.empty(), argument.base));
    record.key("shift", optional_if(argument.kind == Kind::in_register, argument.shift));
    record.key("index", optional_if(indexed, argument.index));
    record.key("scale", optional_if(indexed, argument.scale));
    record.key("index_extension", index_extension(argument));
    record.key("displacement",
               optional_if(in_memory && !argument.address, values::Value{argument.displacement}));
    record.key("address", argument.address);
    record.key("constant", optional_if(argument.kind == Kind::constant, constant_value(argument)));
    record.key("problem", optional_if(!argument.problem.empty(), argument.problem));
  });
}

std::string size_text(const usdt::StaticArgument& argument) {
  if (!argument.size) return "?";
  const char* const type = argument.is_float ? "f" : argument.is_signed ? "s" : "u";
  return type + std::to_string(std::uint64_t{*argument.size} * 8);
}

std::string address_text(const usdt::StaticArgument& argument) {
  std::string text =
      argument.address ? fmt::format("{:#x}", argument.address->value) : argument.base;
  if (!argument.index.empty()) {
    text += text.empty() ? "" : "+";
    if (const auto extension = index_extension(argument)) text += fmt::format("{} ", *extension);
    text += fmt::format("{}*{}", argument.index, argument.scale);
  }
  const auto displacement = static_cast<std::uint64_t>(argument.displacement);
  if (text.empty()) return fmt::format("{:#x}", displacement);
  if (argument.displacement < 0) text += fmt::format("-{:#x}", 0 - displacement);
  if (argument.displacement > 0) text += fmt::format("+{:#x}", displacement);
  return text;
}

std::string argument_text(const usdt::StaticArgument& argument) {
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
    return fmt::format("{} [{}]", size_text(argument), address_text(argument));
  case Kind::out_of_reach:
  case Kind::unparsed:
    return fmt::format("{} <{}>", size_text(argument), argument.problem);
  }
  return {};
}

} // namespace

void append_json_static_arguments(std::string& out,
                                  std::span<const usdt::StaticArgument> arguments) {
  out += '[';
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (i != 0) out += ',';
    append_json_argument(out, arguments[i]);
  }
  out += ']';
}

std::string marked_arguments(const resolve::ProbePoint& point) {
  const usdt::StaticProbe& probe = *point.static_probe;
  bool any = false;
  std::string text;
  for (const usdt::StaticArgument& argument : probe.arguments) {
    if (!text.empty()) text += ' ';
    const bool is_unparsed = argument.kind == Kind::unparsed;
    const bool is_unreadable = !events::unreadable_reason(argument).empty();
    if (is_unparsed || is_unreadable) text += is_unparsed ? '?' : '!';
    any = any || is_unreadable;
    text += argument.raw;
  }
  return any && usdt::can_parse_static_arguments(point.binary->machine) ? text
                                                                        : probe.raw_arguments;
}

std::string parsed_arguments(std::span<const usdt::StaticArgument> arguments) {
  std::string text;
  for (const usdt::StaticArgument& argument : arguments) {
    if (!text.empty()) text += ", ";
    text += argument_text(argument);
  }
  return text;
}

std::string semaphore_text(const resolve::ProbePoint& point) {
  const usdt::StaticProbe& probe = *point.static_probe;
  if (point.semaphore) return fmt::format("{:#x}", point.semaphore->value);
  // The offset of a compressed entry of an archive is that in the library, as for the probe.
  if (probe.semaphore_offset) return fmt::format("{:#x}", probe.semaphore_offset->value);
  return "-";
}

namespace {

using Text = std::optional<std::string_view>;

// Formats an address that is in no known file.
std::string display_address(std::uint64_t pc, std::string_view mapping) {
  std::string text;
  append_hex(text, pc);
  if (!mapping.empty()) text += " (" + std::string(mapping) + ")";
  return text;
}

// Returns null without --lines or debug information.
const symbolize::SourcePosition* position_of(const unwind::Frame& frame,
                                             const symbolize::Frame& symbolized) {
  const auto& positions = symbolized.positions;
  return frame.inline_depth < positions.size() ? &positions[frame.inline_depth] : nullptr;
}

// Returns the suffix of a guessed frame.
std::string_view guess_suffix(unwind::FoundBy found_by) {
  return found_by == unwind::FoundBy::link_register ? " by link register" : " by frame pointer";
}

} // namespace

void append_json_stack(std::string& out, const unwind::Stack* stack) {
  if (stack == nullptr) {
    out += "null";
    return;
  }
  out += '[';
  for (std::size_t i = 0; i < stack->frames.size(); ++i) {
    out += i == 0 ? "{\"index\":" : ",{\"index\":";
    append_decimal(out, i);
    append_json_frame(out, stack->frames[i]);
    out += '}';
  }
  out += ']';
}

void append_json_caller(std::string& out, const unwind::Frame* caller) {
  if (caller == nullptr) {
    out += "null";
    return;
  }
  out += "{\"index\":1";
  append_json_frame(out, *caller);
  out += '}';
}

void append_json_frame(std::string& out, const unwind::Frame& frame) {
  const auto symbolized = frame.symbolized();
  const unwind::Module* const module = symbolized ? symbolized->module : nullptr;
  const symbolize::SourcePosition* const position =
      symbolized ? position_of(frame, *symbolized) : nullptr;
  const bool is_inlined = position != nullptr && position->inlined;
  const symbolize::Function* function =
      symbolized && symbolized->function ? &*symbolized->function : nullptr;
  if (is_inlined) function = &*position->inlined;
  if (function == nullptr && frame.jit) function = frame.jit.get();
  const Text mapping =
      frame.code && !frame.code->mapping.empty() ? Text(frame.code->mapping) : std::nullopt;
  const symbolize::ModuleAddress* const found = module != nullptr ? &*frame.code : nullptr;
  JsonRecord record(out);
  record.key("pc", Hex{frame.pc});
  record.key("file", module != nullptr ? &module->path() : nullptr);
  record.key("entry", module != nullptr ? &module->entry() : nullptr);
  // Unknown if the file cannot be read.
  record.key("module_address", of(found != nullptr && module->has_addresses() ? found : nullptr,
                                  &symbolize::ModuleAddress::address));
  record.key("image_offset", of(found, &symbolize::ModuleAddress::offset));
  record.key("symbol", of(function, &symbolize::Function::symbol));
  record.key("symbol_offset", function != nullptr && !is_inlined
                                  ? std::optional(Hex{function->offset})
                                  : std::nullopt);
  record.key("build_id", module != nullptr ? to_optional_view(module->build_id()) : std::nullopt);
  record.key("demangled", of(function, &symbolize::Function::demangled));
  record.key("mapping", module == nullptr ? mapping : std::nullopt);
  record.key("found_by", frame.found_by);
  if (position == nullptr) return;
  record.key("source", position->file.empty() ? nullptr : &position->file);
  record.key("line", position->line != 0 ? &position->line : nullptr);
  record.key("column", position->column != 0 ? &position->column : nullptr);
  record.key("inlined", is_inlined);
}

std::string display_frame(const unwind::Frame& frame) {
  std::string text;
  if (const auto symbolized = frame.symbolized()) {
    const symbolize::SourcePosition* const position = position_of(frame, *symbolized);
    text = position != nullptr ? position->text : symbolized->text;
  } else {
    const std::string_view mapping = frame.code ? frame.code->mapping : std::string_view();
    text = frame.jit ? fmt::format("{}+{:#x} ({})", frame.jit->name(), frame.jit->offset, mapping)
                     : display_address(frame.pc, mapping);
  }
  if (unwind::is_guess(frame.found_by)) text += guess_suffix(frame.found_by);
  return text;
}

} // namespace uprobectl::output
