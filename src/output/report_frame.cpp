// SPDX-License-Identifier: Apache-2.0
// The JSON record of a frame of a crash report or profile.
#include "output/report_frame.hpp"
#include "output/descriptions.hpp"
#include "output/json_record.hpp"
#include "symbolize/report_text.hpp"

namespace uprobectl::output {

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
    record.key("symbol", non_empty(reported.function));
    record.key("symbol_offset", to_hex(reported.function_offset));
    record.key("demangled", of(written.mapped, &MappedMethodName::name));
    return;
  }
  const bool is_inlined = written.position != nullptr && written.position->inlined;
  const symbolize::Function* function =
      written.frame->function ? &*written.frame->function : nullptr;
  if (is_inlined) function = &*written.position->inlined;
  record.key("symbol", of(function, &symbolize::Function::symbol));
  record.key("symbol_offset", function != nullptr && !is_inlined
                                  ? std::optional(Hex{function->offset})
                                  : std::nullopt);
  record.key("demangled", of(function, &symbolize::Function::demangled));
}

std::optional<std::uint32_t> non_zero(std::uint32_t value) {
  return value == 0 ? std::nullopt : std::optional(value);
}

void add_position(JsonRecord& record, const ReportFrameRecord& written) {
  const symbolize::SourcePosition* const position = written.position;
  if (const MappedMethodName* const mapped = written.mapped; mapped != nullptr) {
    record.key("source", non_empty(mapped->source));
    record.key("line", non_zero(mapped->line));
    record.key("column", nullptr);
    record.key("inlined", mapped->inlined);
    return;
  }
  record.key("source", non_empty(position != nullptr ? position->file : written.reported->source));
  record.key("line", position != nullptr ? non_zero(position->line) : written.reported->line);
  record.key("column", position != nullptr ? non_zero(position->column) : std::nullopt);
  record.key("inlined", position != nullptr && position->inlined.has_value());
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
  else if (reported.origin == Origin::android || reported.origin == Origin::sanitizer)
    address = VirtualAddress{reported.number};
  const bool names_file = reported.names_file();
  record.key("index", reported.index);
  record.key("pc", to_hex(reported.pc));
  record.key("file", names_file ? Text(reported.path) : std::nullopt);
  record.key("entry", reported.entry);
  record.key("module_address", address);
  record.key("image_offset", module != nullptr && module->image() != nullptr
                                 ? module->image()->to_image(*address)
                                 : std::nullopt);
  add_names(record, written);
  record.key("build_id", reported.build_id || module == nullptr
                             ? to_optional_view(reported.build_id)
                             : to_optional_view(module->build_id()));
  record.key("mapping", names_file ? std::nullopt : non_empty(reported.path));
  record.key("found_by", written.mapped != nullptr ? "mapping" : "report");
  add_position(record, written);
  record.key("report", non_empty(written.report));
  record.key("report_line", written.report_line);
  std::optional<std::string> symbols_from;
  if (written.mapped != nullptr)
    symbols_from = written.mapped->mapping;
  else if (module != nullptr)
    symbols_from = to_string(BinaryPath{module->path(), module->entry()});
  record.key("symbols_from", symbols_from);
  record.key("alternative", of(written.mapped, &MappedMethodName::alternative));
}

} // namespace uprobectl::output
