// SPDX-License-Identifier: Apache-2.0
// Argument lists and conditions, as --args and --if take them.
#include "events/plan.hpp"

#include <cstdlib>

using namespace uprobectl;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  CaptureSpec inspection{.on_return = true};
  if (auto list = parse_arguments(text)) {
    list->function.reset();
    inspection.arguments.push_back(std::move(*list));
  }
  if (auto condition = parse_condition(text))
    inspection.conditions.push_back(std::move(*condition));
  const ProbePoint point;
  const CapturePoint probed{.point = &point,
                            .code = {.kind = CodeKind::native, .strings = READ_LIBCXX_STRING}};
  const auto plan = CapturePlan::make(inspection, std::span(&probed, 1));
  if (!plan) return 0;
  // What is planned lies inside the record.
  const builtin_settings& settings = plan->settings();
  if (settings.max_bytes_offset + settings.max_capacity > settings.record_size) std::abort();
  for (const capture_plan& made : plan->plans())
    for (const reading& each : std::span(made.readings, made.reading_count))
      if (each.bytes_offset > settings.max_bytes_offset || each.capacity > settings.max_capacity ||
          each.steps > settings.max_steps || each.base >= register_names().size() ||
          each.length_from > made.reading_count)
        std::abort();
  const std::vector<std::byte> record(settings.record_size);
  if (!plan->decode(record)) std::abort();
  return 0;
}
