// SPDX-License-Identifier: Apache-2.0
// The decoded form of a record that a BPF program sends. Records of the built-in program are
// decoded by events/plan.hpp, those of users' programs by events/user_record.hpp.
#pragma once

#include "events/arguments.hpp"
#include "uprobectl/resolve.hpp"
#include "values/value.hpp"

#include <array>

namespace uprobectl {

namespace unwind {
struct Stack;
struct Frame;
} // namespace unwind

enum class EventKind {
  entry,
  on_return,
  static_probe,
  record, // sent by a user's program
};

// How a probed function was left. The kernel's return probes (uretprobes) do not tell.
enum class ExitKind { unknown, return_instruction, tail_call };

// A record of a user's program.
struct UserRecord {
  std::string map;
  std::optional<std::string> type; // name of the type that it was decoded with
  std::optional<Value> value;      // nullopt if no type is known; the bytes are then in `raw`
  std::vector<std::byte> raw;
};

// A captured value and its name.
struct ArgumentValue {
  std::string_view name;           // borrowed
  std::string_view type_name = {}; // as in --args, or in the source; borrowed
  Value value = {};                // unreadable, in whole or in part, if it could not be read
  bool is_memory = false;          // a string or buffer: JSON says whether it is cut
  bool is_from_source = false;     // named and typed by debug information
};

// A hit of a probe, or a record of a user's program. In the latter only `kind`, `record` and, if
// its map provides them, time, pid, tid, cpu and stack are set.
struct Event {
  std::uint64_t time_ns = 0; // CLOCK_MONOTONIC
  std::uint32_t pid = 0;     // in the pid namespace of uprobectl
  std::uint32_t tid = 0;
  std::uint32_t cpu = 0;
  std::string comm;                  // at most 15 bytes (TASK_COMM_LEN - 1)
  const ProbePoint* point = nullptr; // borrowed
  std::uint32_t probe = 0;           // number of the probe in this run
  EventKind kind = EventKind::entry;
  // Set for entries and paired calls. `arguments` has the six integer arguments unless --args or a
  // static probe declares others, which are in `typed_arguments`.
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
  std::string return_errno;                // of a call that failed: the name of its errno, "ENOENT"
  std::optional<std::uint64_t> latency_ns; // on_return of a paired call
  std::optional<std::uint64_t> weight;     // the value of CaptureSpec::weight, if it was read
  // With CaptureSpec::nest_calls, as in call_position of bpf/record.h.
  std::uint64_t stack_pointer = 0;
  std::uint64_t goroutine = 0;
  std::uint64_t lost_before = 0;
  std::vector<std::uint64_t> registers;     // if requested, in the order of register_names(arch)
  Arch arch = host_arch;                    // of the machine that was probed
  std::optional<std::uint32_t> ns_pid;      // pid in the process's own pid namespace
  std::shared_ptr<const UserRecord> record; // EventKind::record
  // If requested. Borrowed; valid only while the event is being reported.
  const unwind::Stack* stack = nullptr;
  // Its stack is not unwound: only the copy of the run has it.
  bool has_raw_stack = false;
  // The frame that called the function, if requested and known. Borrowed as `stack`.
  const unwind::Frame* caller = nullptr;
};

// The names of the elements of Event::registers.
std::span<const std::string_view> register_names(Arch arch = host_arch);

} // namespace uprobectl
