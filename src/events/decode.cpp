#include "bpf/record.h"
#include "uprobectl/events.hpp"

namespace uprobectl {

Result<Event> decode_event(Bytes record, std::span<const ProbePoint> points) {
  probe_record raw;
  if (record.size() < sizeof(raw))
    return fail(ErrorKind::corrupt, "a record of the BPF program has " +
                                        std::to_string(record.size()) + " bytes where " +
                                        std::to_string(sizeof(raw)) + " are needed");
  std::memcpy(&raw, record.data(), sizeof(raw));
  if (raw.cookie >= points.size() || raw.kind > RECORD_RETURN)
    return fail(ErrorKind::corrupt, "a record of the BPF program names probe " +
                                        std::to_string(raw.cookie) + " of " +
                                        std::to_string(points.size()));

  Event event;
  event.time_ns = raw.time_ns;
  event.pid = raw.pid;
  event.tid = raw.tid;
  event.cpu = raw.cpu;
  event.comm.assign(raw.comm, ::strnlen(raw.comm, sizeof(raw.comm)));
  event.point = &points[raw.cookie];
  if (raw.kind == RECORD_RETURN) {
    event.kind = EventKind::on_return;
    event.return_value = raw.values[0];
  } else {
    std::copy(std::begin(raw.values), std::end(raw.values), event.arguments.begin());
  }
  return event;
}

} // namespace uprobectl
