#include "output/frame.hpp"

#include "output/json_record.hpp"
#include "uprobectl/path.hpp"

namespace uprobectl {

namespace {

using Text = std::optional<std::string_view>;

// A frame, whichever way it was found; views of it.
struct Shown {
  std::uint64_t pc = 0;
  Text file = {}; // nothing: where the pc lies is not known
  Text entry = {};
  std::optional<std::uint64_t> address = {}; // nothing: the file cannot be read
  ImageOffset image_offset = {};
  Text symbol = {}; // raw
  std::uint64_t symbol_offset = 0;
  Text demangled = {}; // nothing where it is the same
  Text build_id = {};
  Text mapping = {}; // what lies there where that is no file that is known
  stacks::FoundBy found_by = stacks::FoundBy::registers;
};

// A name that is empty is none.
Text name_of_mapping(std::string_view name) { return name.empty() ? Text() : Text(name); }

// Of the kernel's walk.
Shown shown(const StackFrame& frame, std::size_t index) {
  Shown shown{.pc = frame.pc};
  if (index > 0) shown.found_by = stacks::FoundBy::kernel_walk;
  if (!frame.place) {
    shown.mapping = name_of_mapping(frame.module);
    return shown;
  }
  const ProbePoint& place = *frame.place;
  shown.file = place.binary->real_path;
  shown.entry = text_of(place.binary->path.entry);
  shown.address = place.address.value;
  shown.image_offset = place.image_offset;
  shown.symbol = text_of(place.symbol);
  shown.symbol_offset = place.symbol_offset;
  shown.demangled = text_of(place.demangled);
  shown.build_id = text_of(place.binary->build_id);
  return shown;
}

// name: of the frame's place; what is shown is a view of it.
Shown shown(const stacks::Frame& frame, const stacks::PlaceName* name) {
  Shown shown{.pc = frame.pc, .found_by = frame.found_by};
  if (name == nullptr) {
    if (frame.place) shown.mapping = name_of_mapping(frame.place->mapping);
    return shown;
  }
  const stacks::Place& place = *frame.place;
  shown.file = place.module->path();
  shown.entry = text_of(place.module->entry());
  if (place.module->image() != nullptr) shown.address = place.address.value;
  shown.image_offset = place.offset;
  shown.symbol = text_of(name->symbol);
  shown.symbol_offset = name->symbol_offset;
  shown.demangled = text_of(name->demangled);
  shown.build_id = text_of(place.module->build_id());
  return shown;
}

std::shared_ptr<const stacks::PlaceName> name_of(const stacks::Frame& frame) {
  const bool known = frame.place && frame.place->module;
  return known ? frame.place->module->name(frame.place->address) : nullptr;
}

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

void append_shown(std::string& out, const Shown& frame) {
  const auto if_known = [](bool known, std::uint64_t value) {
    return known ? std::optional(value) : std::nullopt;
  };
  append_number(out, "pc", frame.pc);
  append_text(out, "file", frame.file);
  append_text(out, "entry", frame.entry);
  append_number(out, "module_address", frame.address);
  append_number(out, "image_offset", if_known(frame.file.has_value(), frame.image_offset.value));
  append_text(out, "symbol", frame.symbol);
  append_number(out, "symbol_offset", if_known(frame.symbol.has_value(), frame.symbol_offset));
  append_text(out, "build_id", frame.build_id);
  append_text(out, "demangled", frame.demangled);
  append_text(out, "mapping", frame.mapping);
  append_text(out, "found_by", to_string(frame.found_by));
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

void append_json_stack(std::string& out, std::optional<std::span<const StackFrame>> stack) {
  if (!stack) {
    out += "null";
    return;
  }
  out += '[';
  for (std::size_t i = 0; i < stack->size(); ++i) {
    out += i == 0 ? "{\"index\":" : ",{\"index\":";
    append_decimal(out, i);
    append_shown(out, shown((*stack)[i], i));
    out += '}';
  }
  out += ']';
}

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
  const auto name = name_of(frame);
  append_shown(out, shown(frame, name.get()));
}

std::string display_frame(const StackFrame& frame) {
  if (!frame.place) return display_bare(frame.pc, frame.module);
  std::string text = frame.place->symbol ? display_name(*frame.place) : std::string();
  const ProbePoint& place = *frame.place;
  if (!text.empty()) text += ' ';
  stacks::append_place(text, place.binary->path.file, text_of(place.binary->path.entry), {},
                       place.address);
  return text;
}

std::string display_frame(const stacks::Frame& frame) {
  std::string text;
  if (const auto name = name_of(frame))
    text = name->shown;
  else
    text = display_bare(frame.pc, frame.place ? frame.place->mapping : std::string_view());
  if (stacks::is_guess(frame.found_by)) text += mark_of(frame.found_by);
  return text;
}

} // namespace uprobectl
