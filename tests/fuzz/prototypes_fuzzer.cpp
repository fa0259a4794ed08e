// SPDX-License-Identifier: Apache-2.0
// Tables of prototypes. Accepted prototypes can be captured within the limits of a call.
#include "events/plan.hpp"

#include <algorithm>
#include <cstdlib>

using namespace uprobectl;

int fuzz_prototypes(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  events::PrototypeTable table;
  if (const auto added = table.add(text); !added) {
    if (!added.error().message.starts_with("line ")) std::abort();
    return 0;
  }
  const resolve::ProbePoint point;
  for (const events::PrototypeTable::Library& library : table.libraries())
    for (const auto& [name, prototype] : library.functions)
      for (const bool paired : {false, true}) {
        const events::CaptureSpec capture{.pair_calls = paired};
        // Where glibc of arm64 might have it.
        const events::ErrnoLocation error{.slot = 0x1000, .thread_pointer_offset = -64};
        events::CapturePoint probed{
            .point = &point,
            .code = {.kind = events::CodeKind::native, .strings = READ_LIBCXX_STRING},
            .known = std::make_shared<const events::KnownCall>(
                make_known_call(*prototype, name, capture, phases_of(capture), false, error))};
        const auto plan = events::CapturePlan::make(capture, std::span(&probed, 1));
        if (!plan) continue; // more arguments than have a location
        std::uint32_t bytes = 0;
        for (const point_plan& made : plan->plans())
          for (const reading& each : std::span(made.readings, made.reading_count)) {
            bytes += each.capacity;
            if (each.base_from > made.reading_count || each.length_from > made.reading_count)
              std::abort();
          }
        if (bytes > events::max_known_bytes) std::abort();
        const std::vector<std::byte> record(plan->settings().record_size);
        if (!plan->decode(record)) std::abort();
      }
  return 0;
}
