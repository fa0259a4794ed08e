// SPDX-License-Identifier: Apache-2.0
// Records executable mappings of processes as they appear, from perf events. This covers processes
// that end before /proc can be read, and libraries that are loaded later.
// Source: Linux include/uapi/linux/perf_event.h (enum perf_event_type).
#pragma once

#include "uprobectl/process.hpp"

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace uprobectl::process {

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
// Returns the end of the thread that the record reports; nullopt for other records.
std::optional<ThreadEnd> parse_thread_end(Bytes record);
// Returns the number of lost records of a PERF_RECORD_LOST; 0 for other records.
std::uint64_t lost_records(Bytes record);

// Visits the records between two positions of a ring. Positions count bytes and are not reduced
// modulo the ring size (data_head, data_tail). Stops at an invalid record.
void visit_records(Bytes ring, std::uint64_t tail, std::uint64_t head,
                   const std::function<void(Bytes)>& visit);

// Puts the records of all CPUs in order, and tells what happens to processes from what happens to
// their threads.
class MappingEventQueue {
public:
  // Returns true if the process has a thread that is not its main thread, goes on, and is none of
  // `ended`. /proc may still list those as running.
  using HasOtherThread = std::function<bool(pid_t pid, const std::set<pid_t>& ended)>;

  // `pids`: those to follow with their descendants; empty: all processes.
  MappingEventQueue(std::span<const pid_t> pids, HasOtherThread has_other_thread);

  void follow(pid_t pid);
  void add(Bytes record); // of a ring
  // Visits the events of `until_ns` (CLOCK_MONOTONIC) and before, by time. Of two events the later
  // one may be read first, from another CPU's ring: those that began after the rings were read wait
  // for the next call.
  void take(std::uint64_t until_ns, const std::function<void(const MappingEvent&)>& visit);
  bool is_waiting() const { return !waiting_.empty(); }
  std::uint64_t lost() const { return lost_; } // records that did not fit into a ring

private:
  struct Recorded {
    MappingEvent event;
    std::optional<pid_t> ended_thread; // the event is the end of this thread, not the main one
    std::uint64_t number = 0;          // in the order of reading, which is that of each CPU
  };
  bool is_followed(const MappingEvent& event);
  void complete(MappingEvent& event);
  bool ends_process(const Recorded& recorded, const std::set<pid_t>& threads);
  void forget_later(pid_t pid);

  HasOtherThread has_other_thread_;
  bool follows_all_;
  std::set<pid_t> followed_;
  std::set<pid_t> outlived_; // processes that go on although their main thread has ended
  // Processes whose main thread has ended and that may yet execute a program: execve() by another
  // thread ends the main one before (Linux fs/exec.c, de_thread()), and has its pid from then on.
  std::set<pid_t> without_main_thread_;
  // Processes whose end was reported, the oldest first. One that is just executing a program looks
  // the same.
  std::deque<pid_t> ended_;
  std::vector<Recorded> waiting_;
  std::uint64_t read_ = 0;
  std::uint64_t lost_ = 0;
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

} // namespace uprobectl::process
