#include "output/frame.hpp"

#include "output/json_record.hpp"
#include "uprobectl/path.hpp"

namespace uprobectl {

namespace {

void append_key(std::string& out, std::string_view key) {
  out += ",\"";
  out += key;
  out += "\":";
}

void append_text(std::string& out, std::string_view key, const std::optional<std::string>& value) {
  append_key(out, key);
  if (!value) {
    out += "null";
    return;
  }
  out += '"';
  append_json(out, *value);
  out += '"';
}

void append_number(std::string& out, std::string_view key, std::optional<std::uint64_t> value) {
  append_key(out, key);
  if (!value) {
    out += "null";
    return;
  }
  out += '"';
  append_hex(out, *value);
  out += '"';
}

void append_frame(std::string& out, const StackFrame& frame) {
  const ProbePoint* const place = frame.place ? &*frame.place : nullptr;
  const bool named = place != nullptr && place->symbol;
  const auto text = [](std::string value) { return std::optional(std::move(value)); };
  append_number(out, "pc", frame.pc);
  append_text(out, "file", place == nullptr ? std::nullopt : text(place->binary->real_path));
  append_text(out, "entry", place == nullptr ? std::nullopt : place->binary->path.entry);
  append_number(out, "module_address",
                place == nullptr ? std::nullopt : std::optional(place->address.value));
  append_number(out, "image_offset",
                place == nullptr ? std::nullopt : std::optional(place->image_offset.value));
  append_text(out, "symbol", named ? place->symbol : std::nullopt);
  append_number(out, "symbol_offset", named ? std::optional(place->symbol_offset) : std::nullopt);
  append_text(out, "build_id", place == nullptr ? std::nullopt : place->binary->build_id);
}

} // namespace

void append_json_stack(std::string& out, std::optional<std::span<const StackFrame>> stack) {
  if (!stack) {
    out += "null";
    return;
  }
  out += '[';
  for (std::size_t i = 0; i < stack->size(); ++i) {
    out += i == 0 ? "{\"index\":" : ",{\"index\":";
    append_decimal(out, i);
    append_frame(out, (*stack)[i]);
    out += '}';
  }
  out += ']';
}

std::string display_frame(const StackFrame& frame) {
  std::string text;
  if (!frame.place) {
    append_hex(text, frame.pc);
    if (!frame.module.empty()) text += " (" + frame.module + ")";
    return text;
  }
  const ProbePoint& place = *frame.place;
  if (place.symbol) text = display_name(place) + " ";
  std::string module(file_name_of(place.binary->path.file));
  if (place.binary->path.entry) module += "!/" + *place.binary->path.entry;
  text += "(" + module + "+";
  append_hex(text, place.address.value);
  return text + ")";
}

} // namespace uprobectl
