// SPDX-License-Identifier: Apache-2.0
// Records executable mappings of processes as they appear, from perf events. This covers processes
// that end before /proc can be read, and libraries that are loaded later.
// Source: Linux include/uapi/linux/perf_event.h (enum perf_event_type).
#pragma once

#include "uprobectl/process.hpp"

#include <functional>

namespace uprobectl {

// A change to the mappings or the name of a process.
struct MappingEvent {
  enum class Kind : std::uint8_t {
    mapped,   // memory became executable
    forked,   // a new process has the mappings of its parent
    executed, // execve: the previous mappings are gone
    renamed,  // comm of the main thread has changed
    ended     // its last thread has
  };
  Kind kind = Kind::mapped;
  pid_t pid = 0;             // in this program's pid namespace
  pid_t parent = 0;          // set for forked
  std::uint64_t time_ns = 0; // CLOCK_MONOTONIC
  Mapping mapping;           // set for mapped
  std::string name;          // comm; set for executed and renamed
  // Set for executed: not by the main thread. The kernel then has another task for the pid.
  bool by_other_thread = false;
};

// Watches mappings with a software dummy event on each CPU, with a ring buffer of 128 KiB each.
// Samples nothing. Not thread-safe. Start it before reading the mappings of running processes, so
// that none are missed in between.
class MappingWatch {
public:
  // Watches these processes and their descendants, or all processes if none are given.
  // Errors: not_permitted without CAP_PERFMON or CAP_SYS_ADMIN unless kernel.perf_event_paranoid is
  // below 1; unsupported if the kernel has no perf events. Callers can go on without a watch, but
  // then miss mappings of short-lived processes.
  // `wakes_at_once`: fd() is readable as soon as there is an event.
  static Result<MappingWatch> start(std::span<const pid_t> pids, bool wakes_at_once = false);
  MappingWatch(MappingWatch&&) noexcept;
  MappingWatch& operator=(MappingWatch&&) noexcept;
  ~MappingWatch();

  // Also watches this process and its descendants.
  void follow(pid_t pid);
  // For poll(): readable when a ring is half full, unless events wake at once. drain() may be
  // called at any time.
  int fd() const;
  // Visits the events since the last call, by time. Call it before unwinding stacks of that time.
  // Events that happen during the call are not ordered against those of the next call.
  void drain(const std::function<void(const MappingEvent&)>& visit);
  std::uint64_t lost() const; // records that did not fit into a ring

private:
  struct State;
  explicit MappingWatch(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Parsers of perf event records (Linux include/uapi/linux/perf_event.h, struct perf_event_header
// and enum perf_event_type).

// Parses a record with its header. The event has sample_id_all and the sample_type
// PERF_SAMPLE_TIME, so each record ends with its time. Returns nullopt for other kinds of records,
// for records of threads, and if the record is truncated. `ended` is the end of the main thread.
std::optional<MappingEvent> parse_mapping_record(Bytes record);

// The end of a thread that is not the main thread of its process.
struct ThreadEnd {
  pid_t pid = 0;
  pid_t tid = 0;
  std::uint64_t time_ns = 0; // CLOCK_MONOTONIC
};
// Same for the record of such an end.
std::optional<ThreadEnd> parse_thread_end(Bytes record);
// Returns the number of lost records of a PERF_RECORD_LOST; 0 for other records.
std::uint64_t lost_records(Bytes record);

// Visits the records between two positions of a ring. Positions count bytes and are not reduced
// modulo the ring size (data_head, data_tail). Stops at an invalid record.
void visit_records(Bytes ring, std::uint64_t tail, std::uint64_t head,
                   const std::function<void(Bytes)>& visit);

} // namespace uprobectl
