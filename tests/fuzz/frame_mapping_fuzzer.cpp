// SPDX-License-Identifier: Apache-2.0
// A report with Java frames and classes, translated by a mapping: "REPORT\0MAPPING".
#include "art/frame_mapping.hpp"
#include "require.hpp"
#include "symbolize/java_report.hpp"
#include "util/text.hpp"

using namespace uprobectl;

int fuzz_frame_mapping(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::string_view report = text.substr(0, text.find('\0'));
  const std::string_view rest = text.substr(std::min(report.size() + 1, text.size()));
  auto names = art::NameMapping::parse(rest, nullptr);
  if (!names) names = art::NameMapping::parse("c.D -> a.b:\n  1:2:void f():3:9 -> c\n", nullptr);
  art::FrameMapping mapping(*names);
  while (!report.empty()) {
    const std::string_view line = take_line(report);
    const auto frame = symbolize::read_java_frame(line);
    if (!frame) {
      mapping.begin_stack("");
      for (const symbolize::JavaClassName& name : symbolize::read_java_classes(line)) {
        require_inside(name.name, line);
        if (name.name.empty() || name.column >= line.size()) std::abort();
        mapping.begin_stack(name.name);
      }
      continue;
    }
    require_inside(frame->function, line);
    require_inside(frame->source, line);
    if (frame->class_name().empty() || frame->method().empty() || frame->column >= line.size())
      std::abort();
    const auto answer = mapping.translate({.class_name = frame->class_name(),
                                           .method = frame->method(),
                                           .source = frame->source,
                                           .line = frame->line});
    const bool is_known = (*names)->class_in_source(frame->class_name()).has_value();
    if (answer.alternatives.empty() == is_known) std::abort();
    for (const auto& stack : answer.alternatives) {
      if (stack.empty() || stack.back().file.empty()) std::abort();
      for (const art::SourceFrame& each : stack) (void)to_string(each);
    }
    (void)mapping.methods(frame->class_name(), frame->method());
  }
  return 0;
}
