// SPDX-License-Identifier: Apache-2.0
// The decoded form of a record that a BPF program sends. CapturePlan::decode() makes events of the
// built-in program's records, events/user_record.hpp those of users' programs.
#pragma once

#include "bpf/record.h"
#include "events/arguments.hpp"
#include "uprobectl/resolve.hpp"
#include "values/value.hpp"
#include "values/value_type.hpp"

#include <algorithm>
#include <array>

namespace uprobectl::output {
struct StackSample; // output/records.hpp
} // namespace uprobectl::output

namespace uprobectl::unwind {
struct Stack;
struct Frame;
} // namespace uprobectl::unwind

namespace uprobectl::events {

enum class EventKind {
  entry,
  on_return,
  static_probe,
  record, // sent by a user's program
  wait    // of a thread during a call of the function: Event::wait
};

// How a probed function was left. The kernel's return probes (uretprobes) do not tell.
enum class ExitKind { unknown, return_instruction, tail_call };

// A record of a user's program.
struct UserRecord {
  std::string map;
  std::optional<std::string> type;    // name of the type that it was decoded with
  std::optional<values::Value> value; // nullopt if no type is known; the bytes are then in `raw`
  std::vector<std::byte> raw;
  std::optional<values::Value> sent = {}; // if `value` is another form of it (--as)
  std::shared_ptr<const values::ValueType> value_type = {}; // of what was sent; null: not known
};

// A captured value and its name.
struct ArgumentValue {
  std::string_view name;           // borrowed
  std::string_view type_name = {}; // as in --args, or in the source; borrowed
  values::Value value = {};        // unreadable, in whole or in part, if it could not be read
  bool is_memory = false;          // a string or buffer: JSON says whether it is cut
  bool is_from_source = false;     // named and typed by debug information
};

struct Event;

// The time from one hit to another one with the same key (--span).
struct Span {
  std::uint32_t number = 0;
  std::string_view name = {}; // borrowed
  values::Value key = {};
  bool is_by_thread = false;  // the key is the thread
  std::uint64_t begin_ns = 0; // CLOCK_MONOTONIC
  // The hit that ended it; null if it was open at the end of the run.
  std::shared_ptr<const Event> end = {};
};

// Waiting times by wait_cause, ns.
using WaitCauses = std::array<std::uint64_t, WAIT_CAUSES>;

// A time that a thread was not on a CPU during a call.
struct CallWait {
  std::uint64_t begin_ns = 0; // CLOCK_MONOTONIC
  std::uint64_t duration_ns = 0;
  wait_cause cause = WAIT_PREEMPTED;
  // The thread that woke this one, or that ran when an interrupt did. 0: the thread is not in this
  // pid namespace, there was none, or the interrupt was on an idle CPU.
  std::uint32_t waker_tid = 0;
  std::string waker_comm = {}; // empty: none, or an interrupt of an idle CPU
};

// A hit of a probe, or a record of a user's program. In the latter only `kind`, `record` and, if
// its map provides them, time, pid, tid, cpu and stack are set.
struct Event {
  std::uint64_t time_ns = 0; // CLOCK_MONOTONIC
  std::uint32_t pid = 0;     // in the pid namespace of uprobectl
  std::uint32_t tid = 0;
  std::uint32_t cpu = 0;
  std::string comm;                           // at most 15 bytes (TASK_COMM_LEN - 1)
  const resolve::ProbePoint* point = nullptr; // borrowed
  std::uint32_t probe = 0;                    // number of the probe in this run
  EventKind kind = EventKind::entry;
  // Whether the event has arguments: at entries and paired calls. `arguments` has the six integer
  // arguments unless --args or a static probe declares others, which are in `typed_arguments`.
  bool has_arguments = false;
  std::array<std::uint64_t, 6> arguments = {};
  std::optional<std::vector<ArgumentValue>> typed_arguments;
  // The function's name without its signature, if its parameters are known. Borrowed.
  std::string_view function = {};
  ExitKind left_by = ExitKind::unknown;      // on_return
  std::uint64_t return_value = 0;            // on_return, except by a tail call: the raw register
  std::optional<ArgumentValue> typed_return; // if the type of the return value is known
  bool returns_nothing = false;              // the function's result is void
  // The arguments and the result are those of a known function (events/prototypes.hpp): they are
  // shown without their names, as in a call.
  bool is_known_call = false;
  int return_errno = 0; // of a call that failed, if it was read; else 0
  // Whether a known call has failed, by its prototype; nullopt if it is not known.
  std::optional<bool> failed;
  std::optional<std::uint64_t> latency_ns; // on_return of a paired call
  // With CaptureSpec::tracks_waits: how long the thread was not on a CPU during latency_ns; nullopt
  // if it is not known.
  std::optional<std::uint64_t> waiting_ns;
  // The parts of waiting_ns, by wait_cause. Requires CaptureSpec::tracks_causes.
  std::optional<WaitCauses> caused_ns;
  // The longest wait of a paired call that has waited, if it is known. For EventKind::wait, the
  // wait itself, which is also in waiting_ns and caused_ns.
  std::optional<CallWait> wait;
  // How long the thread has waited since its first hit. Set at hits that are not paired calls.
  std::optional<std::uint64_t> thread_waited_ns;
  std::optional<WaitCauses> thread_waited_causes_ns; // its parts
  std::optional<std::uint64_t> weight; // the value of CaptureSpec::weight, if it was read
  // With CaptureSpec::nest_calls, as in call_position of bpf/record.h.
  std::uint64_t stack_pointer = 0;
  std::uint64_t goroutine = 0;
  std::uint64_t lost_before = 0;
  std::vector<std::uint64_t> registers;     // if requested, in the order of register_names(arch)
  Arch arch = host_arch;                    // of the machine that was probed
  std::optional<std::uint32_t> ns_pid;      // pid in the process's own pid namespace
  std::shared_ptr<const UserRecord> record; // EventKind::record
  // Set if the event is a span. The event has the values of the hit that began the span, but
  // time_ns is when the span, or the run, ended. latency_ns is its duration; nullopt if it has not
  // ended.
  std::shared_ptr<const Span> span;
  // If requested. Borrowed; valid only while the event is being reported.
  const unwind::Stack* stack = nullptr;
  // The same stack with its completeness and weight, for exports and recorders. Borrowed as
  // `stack`.
  const output::StackSample* sample = nullptr;
  // The stack was recorded without unwinding it.
  bool has_raw_stack = false;
  // The frame that called the function, if requested and known. Borrowed as `stack`.
  const unwind::Frame* caller = nullptr;
  // The --until condition or function that the event matches, as typed; null if none. Borrowed.
  const std::string* trigger = nullptr;
  // The function is probed only for --until: the hit is a trigger and not an event of the run.
  bool is_only_trigger = false;
};

// How long the thread ran during the call or span; nullopt if it is not known.
inline std::optional<std::uint64_t> on_cpu_ns(const Event& event) {
  if (!event.latency_ns || !event.waiting_ns) return std::nullopt;
  return *event.latency_ns - std::min(*event.waiting_ns, *event.latency_ns);
}

template <wait_cause cause>
std::optional<std::uint64_t> caused_ns(const Event& event) {
  return event.caused_ns ? std::optional((*event.caused_ns)[cause]) : std::nullopt;
}

// How long a thread waited between two hits, by their Event::thread_waited_ns; nullopt also if the
// scheduler did not report a switch between them (SWITCH_MISSED).
inline std::optional<std::uint64_t> waited_since(std::optional<std::uint64_t> first,
                                                 std::optional<std::uint64_t> second) {
  if (!first || !second) return std::nullopt;
  const std::uint64_t waited = *second - *first; // the sums may have wrapped around
  if (waited < SWITCH_MISSED) return waited;
  // The clock is read at slightly different times.
  return waited > 0 - SWITCH_MISSED ? std::optional<std::uint64_t>(0) : std::nullopt;
}
// Why it waited, by their Event::thread_waited_causes_ns.
inline std::optional<WaitCauses> waited_since(const std::optional<WaitCauses>& first,
                                              const std::optional<WaitCauses>& second) {
  if (!first || !second) return std::nullopt;
  WaitCauses causes{};
  for (std::size_t i = 0; i < causes.size(); ++i) {
    const auto waited = waited_since(std::optional((*first)[i]), (*second)[i]);
    if (!waited) return std::nullopt;
    causes[i] = *waited;
  }
  return causes;
}
// Sets waiting_ns and caused_ns of a call or span to what its thread waited between two hits;
// nullopt if they are of two threads.
inline void set_waits(Event& whole, const Event& first, const Event& second) {
  const bool is_known = first.tid == second.tid;
  whole.waiting_ns =
      is_known ? waited_since(first.thread_waited_ns, second.thread_waited_ns) : std::nullopt;
  whole.caused_ns =
      is_known ? waited_since(first.thread_waited_causes_ns, second.thread_waited_causes_ns)
               : std::nullopt;
}

// The names of the elements of Event::registers.
std::span<const std::string_view> register_names(Arch arch = host_arch);

} // namespace uprobectl::events
