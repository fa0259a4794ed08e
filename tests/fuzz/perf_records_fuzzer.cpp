// SPDX-License-Identifier: Apache-2.0
// Processes choose the paths in the kernel's records; rings that are read wrongly must cost
// nothing.
#include "process/mapping_watch.hpp"

#include <cstdlib>

using namespace uprobectl;

int fuzz_perf_records(const std::uint8_t* data, std::size_t size) {
  const Bytes bytes = std::as_bytes(std::span(data, size));
  const auto tail = read_at<std::uint64_t>(bytes, 0);
  if (!tail) return 0;
  const Bytes ring = bytes.subspan(8);
  std::uint64_t seen = 0;
  process::visit_records(ring, *tail, *tail + ring.size(), [&](Bytes record) {
    seen += record.size();
    process::lost_records(record);
    static_cast<void>(process::parse_thread_end(record));
    const auto event = process::parse_mapping_record(record);
    if (event && (event->pid <= 0 || event->mapping.path.size() > record.size())) std::abort();
    if (event && event->kind == process::MappingEvent::Kind::mapped &&
        event->mapping.start >= event->mapping.end)
      std::abort();
  });
  if (seen > ring.size()) std::abort();
  process::MappingEventQueue queue({},
                                   [&](pid_t pid, const std::set<pid_t>&) { return pid % 2 != 0; });
  process::visit_records(ring, *tail, *tail + ring.size(),
                         [&](Bytes record) { queue.add(record); });
  std::uint64_t last = 0;
  for (const std::uint64_t until : {*tail, ~std::uint64_t{0}})
    queue.take(until, [&](const process::MappingEvent& event) {
      if (event.time_ns > until || event.time_ns < last) std::abort();
      last = event.time_ns;
    });
  return 0;
}
