// SPDX-License-Identifier: Apache-2.0
#include "plans/attach_plan.hpp"

#include "plans/plan_words.hpp"

#include <fmt/format.h>
#include <llvm/Support/JSON.h>
#include <llvm/Support/raw_ostream.h>

namespace uprobectl::plans {

namespace {

llvm::StringRef view(std::string_view text) { return {text.data(), text.size()}; }

// Writes one plan, indented.
class PlanWriter {
public:
  explicit PlanWriter(llvm::raw_ostream& out) : json_(out, 2) {}

  void write(const AttachPlan& plan) {
    json_.object([&] {
      text("format", plan_format);
      number("version", plan_version);
      text("program", plan.program);
      text("target", plan.target);
      texts("functions", plan.functions);
      texts("options", plan.options);
      json_.attributeArray("files", [&] {
        for (const PlannedFile& file : plan.files) json_.object([&] { write(file); });
      });
    });
  }

private:
  void write(const PlannedFile& file) {
    text("target", file.target);
    text("machine", file.build.machine);
    optional_text("build_id", file.build.build_id);
    if (file.build.size) number("size", *file.build.size);
    optional_text("sha256", file.build.sha256);
    if (file.strings != StringLayout::unknown) text("strings", word_of(file.strings));
    json_.attributeArray("probes", [&] {
      for (const PlannedProbe& probe : file.probes) json_.object([&] { write(probe); });
    });
  }

  void write(const PlannedProbe& probe) {
    const NamedPlace& place = probe.place;
    text("function", place.request);
    hex("address", place.address.value);
    optional_text("symbol", place.symbol);
    if (place.symbol_offset != 0) hex("symbol_offset", place.symbol_offset);
    optional_text("demangled", place.demangled);
    optional_text("version", place.version);
    if (place.default_version) json_.attribute("default_version", *place.default_version);
    if (place.size) number("size", *place.size);
    if (place.kind) text("kind", to_string(*place.kind));
    if (place.table) text("table", to_string(*place.table));
    if (place.inlined_into)
      json_.attributeObject("inlined_into", [&] { write(*place.inlined_into); });
    if (place.source) json_.attributeObject("source", [&] { write(*place.source); });
    if (probe.exits) json_.attributeObject("exits", [&] { write(*probe.exits); });
  }

  void write(const InlinedInto& into) {
    text("function", into.function);
    optional_text("demangled", into.demangled);
    text("source", into.source);
    number("line", into.line);
    json_.attribute("approximate", into.is_approximate);
  }

  void write(const SourceLine& source) {
    text("file", source.file);
    number("line", source.line);
    optional_text("inlined", source.inlined);
  }

  void write(const PlannedExits& exits) {
    json_.attributeArray("returns", [&] {
      for (const VirtualAddress address : exits.returns) hex(address.value);
    });
    json_.attributeArray("tail_calls", [&] {
      for (const PlannedExits::TailCall& call : exits.tail_calls)
        json_.object([&] { write(call); });
    });
    json_.attributeArray("code", [&] {
      for (const elf::AddressRange& range : exits.code)
        json_.object([&] {
          hex("address", range.address.value);
          number("size", range.size);
        });
    });
  }

  void write(const PlannedExits::TailCall& call) {
    hex("address", call.address.value);
    if (call.condition.test != JumpCondition::Test::always)
      json_.attributeObject("condition", [&] {
        text("test", word_of(call.condition.test));
        number("code", call.condition.code);
        number("register", call.condition.tested);
        number("size", call.condition.size);
      });
    if (call.returns)
      json_.attributeObject("returns", [&] {
        number("raises_stack", call.returns->raises_stack);
        json_.attribute("stores", call.returns->stores);
      });
    if (!call.source) return;
    json_.attributeObject("source", [&] {
      json_.attribute("memory", call.source->in_memory);
      if (call.source->base) number("base", *call.source->base);
      if (call.source->index) number("index", *call.source->index);
      number("scale", call.source->scale);
      json_.attribute("displacement", call.source->displacement);
    });
  }

  void text(llvm::StringRef key, std::string_view value) {
    json_.attribute(key, llvm::json::fixUTF8(view(value)));
  }
  void optional_text(llvm::StringRef key, const std::optional<std::string>& value) {
    if (value) text(key, *value);
  }
  void texts(llvm::StringRef key, const std::vector<std::string>& values) {
    json_.attributeArray(key, [&] {
      for (const std::string& value : values) json_.value(llvm::json::fixUTF8(view(value)));
    });
  }
  void number(llvm::StringRef key, std::uint64_t value) { json_.attribute(key, value); }
  void hex(std::uint64_t value) { json_.value(fmt::format("{:#x}", value)); }
  void hex(llvm::StringRef key, std::uint64_t value) {
    json_.attribute(key, fmt::format("{:#x}", value));
  }

  llvm::json::OStream json_;
};

// The offset in the file of an address in code.
std::optional<FileOffset> code_offset(const elf::Image& image, VirtualAddress address) {
  const elf::Segment* const segment = image.find_segment(address);
  const auto offset = image.to_image(address);
  if (segment == nullptr || !segment->executable || !offset) return std::nullopt;
  return image.to_file(*offset);
}

std::unexpected<Error> outside_code(VirtualAddress address) {
  return fail(
      ErrorKind::corrupt,
      fmt::format("the plan has an exit at {:#x}, which is not in the file's code", address.value));
}

} // namespace

PlannedExits to_planned_exits(const FunctionReturns& returns, const elf::Image& image) {
  PlannedExits exits{.code = returns.code};
  const std::uint64_t begin = image.entry_data().value;
  for (const FileOffset offset : returns.returns)
    if (const auto address = image.to_address(ImageOffset{offset.value - begin}))
      exits.returns.push_back(*address);
  for (const FunctionReturns::TailCall& call : returns.tail_calls)
    exits.tail_calls.push_back({.address = call.address,
                                .condition = call.condition,
                                .source = call.source,
                                .returns = call.returns});
  return exits;
}

Result<FunctionReturns> to_returns(const PlannedExits& exits, const elf::Image& image) {
  FunctionReturns returns{.code = exits.code};
  for (const VirtualAddress address : exits.returns) {
    const auto offset = code_offset(image, address);
    if (!offset) return outside_code(address);
    returns.returns.push_back(*offset);
  }
  for (const PlannedExits::TailCall& call : exits.tail_calls) {
    const auto offset = code_offset(image, call.address);
    if (!offset) return outside_code(call.address);
    returns.tail_calls.push_back({.offset = *offset,
                                  .address = call.address,
                                  .callee = std::nullopt,
                                  .condition = call.condition,
                                  .source = call.source,
                                  .returns = call.returns});
  }
  return returns;
}

std::string write_plan(const AttachPlan& plan) {
  std::string text;
  llvm::raw_string_ostream out(text);
  PlanWriter(out).write(plan);
  text += '\n';
  return text;
}

std::string write_plan_error(const Error& error) {
  std::string text;
  llvm::raw_string_ostream out(text);
  llvm::json::OStream json(out);
  json.object([&] {
    json.attribute("format", view(plan_error_format));
    json.attribute("message", llvm::json::fixUTF8(view(error.message)));
    json.attributeArray("hints", [&] {
      for (const std::string& hint : error.hints) json.value(llvm::json::fixUTF8(view(hint)));
    });
  });
  return text;
}

} // namespace uprobectl::plans
