// Records of the built-in program -> events. The record's layout is src/bpf/record.h, shared with
// the program itself.
#pragma once

#include "uprobectl/resolve.hpp"

#include <array>

namespace uprobectl {

enum class EventKind { entry, on_return };

struct Event {
  std::uint64_t time_ns = 0; // CLOCK_MONOTONIC
  std::uint32_t pid = 0;     // as the initial pid namespace numbers them
  std::uint32_t tid = 0;
  std::uint32_t cpu = 0;
  std::string comm;                  // at most 15 bytes, as the kernel has it
  const ProbePoint* point = nullptr; // borrowed from the list given to decode_event
  EventKind kind = EventKind::entry;
  std::array<std::uint64_t, 6> arguments = {}; // entry: the first six integer registers
  std::uint64_t return_value = 0;              // on_return: the return register
};

// corrupt if the record is too short or names a probe that is not in the list.
Result<Event> decode_event(Bytes record, std::span<const ProbePoint> points);

} // namespace uprobectl
