// SPDX-License-Identifier: Apache-2.0
// Lines of crash reports: views of a frame must lie in its line, and its column too.
#include "require.hpp"
#include "symbolize/report_text.hpp"
#include "util/text.hpp"

using namespace uprobectl;

int fuzz_report_text(const std::uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  symbolize::ReportReader reader;
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    const auto frame = reader.read(line);
    if (!frame) continue;
    if (frame->path.empty() || frame->column >= line.size()) std::abort();
    require_inside(frame->path, line);
    require_inside(frame->function, line);
    if (frame->entry) require_inside(*frame->entry, line);
    if (frame->build_id &&
        frame->build_id->find_first_not_of("0123456789abcdef") != std::string::npos)
      std::abort();
    (void)frame->names_file();
    if (frame->module_name().size() > line.size() + 2) std::abort();
  }
  return 0;
}
