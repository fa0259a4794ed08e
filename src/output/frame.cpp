#include "output/frame.hpp"

#include "output/json_record.hpp"
#include "uprobectl/path.hpp"

namespace uprobectl {

namespace {

using Text = std::optional<std::string_view>;

void append_key(std::string& out, std::string_view key) {
  out += ",\"";
  out += key;
  out += "\":";
}

void append_text(std::string& out, std::string_view key, const Text& value) {
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

// What lies in no file that is known.
std::string display_bare(std::uint64_t pc, std::string_view mapping) {
  std::string text;
  append_hex(text, pc);
  if (!mapping.empty()) text += " (" + std::string(mapping) + ")";
  return text;
}

// Of a guess.
std::string_view mark_of(stacks::FoundBy found_by) {
  return found_by == stacks::FoundBy::link_register ? " by link register" : " by frame pointer";
}

} // namespace

void append_json_stack(std::string& out, const stacks::Stack* stack) {
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

void append_json_frame(std::string& out, const stacks::Frame& frame) {
  const auto symbolized = frame.symbolized();
  const stacks::Module* const module = symbolized ? symbolized->module : nullptr;
  const symbolize::Function* const function =
      symbolized && symbolized->function ? &*symbolized->function : nullptr;
  const Text mapping =
      frame.place && !frame.place->mapping.empty() ? Text(frame.place->mapping) : std::nullopt;
  append_number(out, "pc", frame.pc);
  append_text(out, "file", module != nullptr ? Text(module->path()) : std::nullopt);
  append_text(out, "entry", module != nullptr ? text_of(module->entry()) : std::nullopt);
  // Not of a file that cannot be read.
  append_number(out, "module_address",
                module != nullptr && module->image() != nullptr
                    ? std::optional(frame.place->address.value)
                    : std::nullopt);
  append_number(out, "image_offset",
                module != nullptr ? std::optional(frame.place->offset.value) : std::nullopt);
  append_text(out, "symbol", function != nullptr ? Text(function->symbol) : std::nullopt);
  append_number(out, "symbol_offset",
                function != nullptr ? std::optional(function->offset) : std::nullopt);
  append_text(out, "build_id", module != nullptr ? text_of(module->build_id()) : std::nullopt);
  append_text(out, "demangled", function != nullptr ? text_of(function->demangled) : std::nullopt);
  append_text(out, "mapping", module == nullptr ? mapping : std::nullopt);
  append_text(out, "found_by", to_string(frame.found_by));
}

std::string display_frame(const stacks::Frame& frame) {
  std::string text;
  if (const auto symbolized = frame.symbolized())
    text = symbolized->text;
  else
    text = display_bare(frame.pc, frame.place ? frame.place->mapping : std::string_view());
  if (stacks::is_guess(frame.found_by)) text += mark_of(frame.found_by);
  return text;
}

} // namespace uprobectl
