// SPDX-License-Identifier: Apache-2.0
// Events: what records of programs are decoded to, those of the built-in program by
// events/plan.hpp, those of users' programs by events/user_record.hpp.
#pragma once

#include "bpf/types.hpp"
#include "events/arguments.hpp"
#include "uprobectl/resolve.hpp"

#include <array>

namespace uprobectl {

namespace unwind {
struct Stack;
}

enum class EventKind {
  entry,
  on_return,
  static_probe,
  record, // what a user's program has sent
};

// What a probed function was left by: of the kernel's return probes it is not known.
enum class ExitKind { unknown, return_instruction, tail_call };

struct UserRecord {
  std::string map;
  std::optional<std::string> type; // "event": the name of the type it was read by
  std::optional<DataValue> value;  // nothing: no type is known, then raw is what there is
  std::vector<std::byte> raw;
};

// An argument, or a return value, as its type has it.
struct ArgumentValue {
  std::string_view name; // borrowed
  ArgumentType type = ArgumentType::x64;
  std::uint64_t number = 0;         // integers, extended as their type says
  std::string bytes;                // strings and buffers
  bool truncated = false;           // there were more of them
  std::optional<std::string> error; // why there is no value
};

// Of a record only `kind` and `record` say something.
struct Event {
  std::uint64_t time_ns = 0; // CLOCK_MONOTONIC
  std::uint32_t pid = 0;     // as the initial pid namespace numbers them
  std::uint32_t tid = 0;
  std::uint32_t cpu = 0;
  std::string comm;                  // at most 15 bytes, as the kernel has it
  const ProbePoint* point = nullptr; // borrowed
  std::uint32_t probe = 0;           // the number of its probe in the run
  EventKind kind = EventKind::entry;
  // Of an entry, or where calls are paired of a return: the six integer arguments, unless others
  // were asked for.
  bool has_arguments = false;
  std::array<std::uint64_t, 6> arguments = {};
  std::optional<std::vector<ArgumentValue>> typed_arguments; // what was asked for
  ExitKind left_by = ExitKind::unknown;                      // on_return
  std::uint64_t return_value = 0;            // on_return, but by a tail call: the register
  std::optional<ArgumentValue> typed_return; // where its type was said
  std::optional<std::uint64_t> latency_ns;   // on_return of a paired call
  std::vector<std::uint64_t> registers;      // where asked for, as register_names() has them
  std::optional<std::uint32_t> ns_pid;       // pid in the process's own pid namespace
  std::shared_ptr<const UserRecord> record;  // record
  // Where it was asked for: borrowed, valid while the event is shown.
  const unwind::Stack* stack = nullptr;
};

// What the elements of Event::registers are called on this machine.
std::span<const std::string_view> register_names();

} // namespace uprobectl
