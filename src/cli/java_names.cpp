// SPDX-License-Identifier: Apache-2.0
#include "java_names.hpp"

#include "art/oat_state.hpp"
#include "output/format.hpp"
#include "output/output.hpp"
#include "symbolize/java_report.hpp"
#include "util/text.hpp"

#include <fmt/format.h>

namespace uprobectl::cli {

namespace {

// Whether there is nothing to add to a frame of the report.
bool is_same(const symbolize::JavaFrame& reported, const art::FrameMapping::Answer& answer) {
  if (answer.alternatives.size() != 1 || answer.alternatives.front().size() != 1) return false;
  const art::SourceFrame& source = answer.alternatives.front().front();
  return source.method.class_name == reported.class_name() &&
         source.method.name == reported.method() && source.file == reported.source &&
         source.line == reported.line.value_or(0);
}

// A method without a file was found by its name alone: the signature tells overloads apart.
std::string displayed(const art::SourceFrame& frame) {
  std::string text = frame.file.empty() ? to_string(frame.method) : "at " + to_string(frame);
  if (frame.inlined) text += " [inlined]";
  if (frame.synthesized) text += " [synthesized]";
  return text;
}

} // namespace

std::string indentation(std::string_view line, std::size_t column) {
  std::string text;
  for (std::size_t i = 0; i < column; ++i)
    if (line[i] == '\t')
      text += '\t';
    else if (utf8_length(line, i) != 0 || static_cast<unsigned char>(line[i]) < 0x80)
      text += ' ';
  return text;
}

void JavaNames::write(const symbolize::ReportedFrame& frame, const Line& line,
                      const art::FrameMapping::Answer& answer) {
  const auto& alternatives = answer.alternatives;
  if (answer.omitted_frames > 0)
    output_.gathered_warning(
        "inlined", fmt::format("line {} of the report: {} inlined frames of the mapping are not "
                               "shown, between the innermost and the outermost",
                               line.number, answer.omitted_frames));
  if (json_) {
    for (std::size_t i = 0; i < alternatives.size(); ++i)
      for (const art::SourceFrame& source : alternatives[i]) {
        output::MappedMethodName name{.name = source.file.empty() ? to_string(source.method)
                                                                  : source.method.class_name + '.' +
                                                                        source.method.name,
                                      .source = source.file,
                                      .line = source.line,
                                      .inlined = source.inlined,
                                      .mapping = path_};
        if (alternatives.size() > 1) name.alternative = i;
        output_.write(output::ReportFrameRecord{.reported = &frame,
                                                .report = line.report,
                                                .report_line = line.number,
                                                .mapped = &name});
      }
    return;
  }
  const std::string blanks = indentation(line.text, frame.column) + "    ";
  std::string text(line.begin);
  for (const auto& stack : alternatives)
    for (const art::SourceFrame& source : stack) {
      text += blanks;
      if (&stack != &alternatives.front() && &source == &stack.front()) text += "or ";
      output::append_printable(text, displayed(source));
      text += '\n';
    }
  if (answer.left_out > 0) text += fmt::format("{}or {} others\n", blanks, answer.left_out);
  output_.write_text(text);
}

// R8 can name the mapping in the source file of each class (-renamesourcefileattribute).
void JavaNames::check_build(std::string_view source) {
  constexpr std::string_view prefix = "r8-map-id-";
  const std::string_view id = frames_.names().id();
  if (!source.starts_with(prefix) || id.empty()) return;
  source.remove_prefix(prefix.size());
  if (source.starts_with(id) || id.starts_with(source)) return;
  output_.gathered_warning(
      "mapping", fmt::format("{}: the report is of another build: its map id is '{}', that of the "
                             "mapping '{}'",
                             path_, source, id));
}

void JavaNames::add_classes(const Line& line) {
  std::string text;
  std::string_view exception;
  for (const symbolize::JavaClassName& mentioned : symbolize::read_java_classes(line.text)) {
    if (mentioned.is_thrown && exception.empty()) exception = mentioned.name;
    const auto source = frames_.names().class_in_source(mentioned.name);
    if (!source || *source == mentioned.name) continue;
    text += indentation(line.text, mentioned.column) + "    ";
    output::append_printable(text, *source);
    text += '\n';
  }
  frames_.begin_stack(exception);
  if (text.empty() || json_) return;
  output_.write_text(std::string(line.begin) + text);
}

bool JavaNames::add(const Line& line) {
  const auto reported = symbolize::read_java_frame(line.text);
  if (!reported) {
    // Monitors stand between the frames of a stack.
    if (!trimmed(line.text).starts_with("- ")) index_ = 0;
    add_classes(line);
    return false;
  }
  check_build(reported->source);
  symbolize::ReportedFrame frame{.origin = symbolize::ReportedFrame::Origin::java,
                                 .index = index_++,
                                 .function = reported->function,
                                 .column = reported->column,
                                 .source = reported->source,
                                 .line = reported->line};
  const auto answer = frames_.translate({.class_name = reported->class_name(),
                                         .method = reported->method(),
                                         .source = reported->source,
                                         .line = reported->line});
  if (frames_.is_exhausted())
    output_.warn_once(path_ + ": has so many lines for these methods that the rest of the report "
                              "is not translated");
  if (!answer.alternatives.empty() && (json_ || !is_same(*reported, answer)))
    write(frame, line, answer);
  else if (json_)
    output_.write(output::ReportFrameRecord{
        .reported = &frame, .report = line.report, .report_line = line.number});
  return true;
}

bool JavaNames::add_native(const Line& line, const symbolize::ReportedFrame& frame) {
  std::vector<art::Signature> methods;
  if (const auto signature = art::parse_signature(frame.function)) {
    if (!frames_.names().class_in_source(signature->class_name)) return false;
    methods = frames_.names().in_source(*signature);
  } else if (const auto dot = frame.function.rfind('.'); dot != std::string_view::npos) {
    const std::string_view class_name = frame.function.substr(0, dot);
    const std::string_view method = frame.function.substr(dot + 1);
    methods = frames_.methods(class_name, method);
    if (const auto source = frames_.names().class_in_source(class_name); source && methods.empty())
      methods.push_back({.return_type = {},
                         .class_name = std::string(*source),
                         .name = std::string(method),
                         .parameters = {}});
  }
  art::FrameMapping::Answer answer;
  for (art::Signature& method : methods) {
    if (answer.alternatives.size() == art::FrameMapping::max_alternatives) {
      ++answer.left_out;
      continue;
    }
    answer.alternatives.push_back({{.method = std::move(method), .file = {}}});
  }
  if (answer.alternatives.empty()) return false;
  write(frame, line, answer);
  return true;
}

} // namespace uprobectl::cli
