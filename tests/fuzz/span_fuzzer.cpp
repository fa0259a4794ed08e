// SPDX-License-Identifier: Apache-2.0
// Spans, as --span takes them.
#include "events/spans.hpp"

#include <cstdlib>

using namespace uprobectl;

int fuzz_span(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::vector<events::SpanSpec> spans;
  if (!add_span(spans, text, "target")) {
    if (!spans.empty()) std::abort();
    return 0;
  }
  for (const events::SpanSpec& span : spans) {
    if (span.name.empty() || span.begins.empty() || span.ends.empty()) std::abort();
    for (const auto& points : {span.begins, span.ends})
      for (const events::SpanPoint& point : points)
        if (point.function.function.empty() || (point.static_probe && point.at_return))
          std::abort();
  }
  return 0;
}
