// SPDX-License-Identifier: Apache-2.0
// The JSON record of a frame of a crash report or profile.
#include "output/report_frame.hpp"
#include "output/json_record.hpp"
#include "symbolize/report_text.hpp"

namespace uprobectl {

namespace {

using Text = std::optional<std::string_view>;

std::optional<Hex> to_hex(const std::optional<std::uint64_t>& value) {
  return value ? std::optional(Hex{*value}) : std::nullopt;
}

Text non_empty(std::string_view text) { return text.empty() ? std::nullopt : Text(text); }

// The names that were found, or those of the report.
void add_names(JsonRecord& record, const ReportFrameRecord& written) {
  const symbolize::ReportedFrame& reported = *written.reported;
  if (written.frame == nullptr) {
    record.field("symbol", non_empty(reported.function));
    record.field("symbol_offset", to_hex(reported.function_offset));
    record.field("demangled",
                 written.mapped != nullptr ? Text(written.mapped->name) : std::nullopt);
    return;
  }
  const bool is_inlined = written.position != nullptr && written.position->inlined;
  const symbolize::Function* function =
      written.frame->function ? &*written.frame->function : nullptr;
  if (is_inlined) function = &*written.position->inlined;
  record.field("symbol", function != nullptr ? Text(function->symbol) : std::nullopt);
  record.field("symbol_offset", function != nullptr && !is_inlined
                                    ? std::optional(Hex{function->offset})
                                    : std::nullopt);
  record.field("demangled",
               function != nullptr ? to_optional_view(function->demangled) : std::nullopt);
}

std::optional<std::uint32_t> non_zero(std::uint32_t value) {
  return value == 0 ? std::nullopt : std::optional(value);
}

void add_position(JsonRecord& record, const ReportFrameRecord& written) {
  const symbolize::SourcePosition* const position = written.position;
  if (const MappedMethodName* const mapped = written.mapped; mapped != nullptr) {
    record.field("source", non_empty(mapped->source));
    record.field("line", non_zero(mapped->line));
    record.field("column", nullptr);
    record.field("inlined", mapped->inlined);
    return;
  }
  record.field("source",
               non_empty(position != nullptr ? position->file : written.reported->source));
  record.field("line", position != nullptr ? non_zero(position->line) : written.reported->line);
  record.field("column", position != nullptr ? non_zero(position->column) : std::nullopt);
  record.field("inlined", position != nullptr && position->inlined.has_value());
}

} // namespace

void append_json_report_frame(JsonRecord& record, const ReportFrameRecord& written) {
  using Origin = symbolize::ReportedFrame::Origin;
  const symbolize::ReportedFrame& reported = *written.reported;
  const symbolize::Module* const module =
      written.frame != nullptr ? written.frame->module : nullptr;
  std::optional<VirtualAddress> address;
  if (written.frame != nullptr)
    address = written.frame->address;
  else if (reported.origin != Origin::perf && reported.origin != Origin::java)
    address = VirtualAddress{reported.number};
  const bool names_file = reported.names_file();
  record.field("index", reported.index);
  record.field("pc", to_hex(reported.pc));
  record.field("file", names_file ? Text(reported.path) : std::nullopt);
  record.field("entry", reported.entry);
  record.field("module_address", address);
  record.field("image_offset", module != nullptr && module->image() != nullptr
                                   ? module->image()->to_image(*address)
                                   : std::nullopt);
  add_names(record, written);
  record.field("build_id", reported.build_id || module == nullptr
                               ? to_optional_view(reported.build_id)
                               : to_optional_view(module->build_id()));
  record.field("mapping", names_file ? std::nullopt : non_empty(reported.path));
  record.field("found_by", written.mapped != nullptr ? "mapping" : "report");
  add_position(record, written);
  record.field("report_line", written.report_line);
  std::optional<std::string> symbols_from;
  if (written.mapped != nullptr)
    symbols_from = written.mapped->mapping;
  else if (module != nullptr)
    symbols_from = to_string(BinaryPath{module->path(), module->entry()});
  record.field("symbols_from", symbols_from);
  record.field("alternative",
               written.mapped != nullptr ? written.mapped->alternative : std::nullopt);
}

} // namespace uprobectl
