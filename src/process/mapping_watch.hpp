// SPDX-License-Identifier: Apache-2.0
// What processes map, as it happens: records of the kernel's perf events, for processes that end
// before /proc can be asked, and for libraries that are loaded late.
// Source: Linux include/uapi/linux/perf_event.h (enum perf_event_type).
#pragma once

#include "uprobectl/process.hpp"

#include <functional>

namespace uprobectl {

struct MappingEvent {
  enum class Kind : std::uint8_t {
    mapped,   // memory became executable
    forked,   // a process was made, with all that its parent maps
    executed, // a process maps nothing any more; what follows is the new program's
    renamed,  // the process's main thread goes by another name
    ended
  };
  Kind kind = Kind::mapped;
  pid_t pid = 0;             // process, as the pid namespace that watches has it
  pid_t parent = 0;          // forked
  std::uint64_t time_ns = 0; // CLOCK_MONOTONIC
  Mapping mapping;           // mapped
  std::string name;          // executed, renamed: comm
};

// An event of the kind software/dummy on each CPU, with a ring of 128 KiB each; nothing is sampled.
// Serves one thread. Start it before the mappings of processes are read, so that nothing is missed
// in between.
class MappingWatch {
public:
  // Of these processes and of those that they make; of all, if none is given. not_permitted
  // without CAP_PERFMON (or CAP_SYS_ADMIN) unless kernel.perf_event_paranoid is below 1;
  // unsupported where the kernel has no perf events. Everything works without, but what short-lived
  // processes map may stay unknown.
  static Result<MappingWatch> start(std::span<const pid_t> pids);
  MappingWatch(MappingWatch&&) noexcept;
  MappingWatch& operator=(MappingWatch&&) noexcept;
  ~MappingWatch();

  // Also of this process and those that it makes.
  void follow(pid_t pid);
  // For poll(): readable once a ring is half full. drain() may be called at any time.
  int fd() const;
  // What has happened since the last time, by time. Call it before stacks of these times are
  // unwound; what happens meanwhile may come in any order.
  void drain(const std::function<void(const MappingEvent&)>& visit);
  std::uint64_t lost() const; // records, because a ring was full

private:
  struct State;
  explicit MappingWatch(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Records of a perf event's ring, as far as they tell of mappings.
// Source: Linux include/uapi/linux/perf_event.h (struct perf_event_header, enum perf_event_type).

// Parses a record with its header. The event has sample_id_all and the sample_type
// PERF_SAMPLE_TIME, so each record ends with its time. Nullopt for other records, for threads, and
// if it is truncated.
std::optional<MappingEvent> parse_mapping_record(Bytes record);
// Records that the ring had no room for (PERF_RECORD_LOST); 0 for other records.
std::uint64_t lost_records(Bytes record);

// The records between two positions, which count bytes from the first one ever and are at most the
// size of the ring apart. Ends at a record that cannot be one.
void visit_records(Bytes ring, std::uint64_t tail, std::uint64_t head,
                   const std::function<void(Bytes)>& visit);

} // namespace uprobectl
