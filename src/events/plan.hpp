// SPDX-License-Identifier: Apache-2.0
// What a run looks at at each hit -> how the built-in program is set up for it, and how its records
// are read back. The layout of both is bpf/record.h.
#pragma once

#include "bpf/record.h"
#include "events/arguments.hpp"
#include "events/events.hpp"

#include <chrono>

namespace uprobectl {

// How the user stack of a hit is found.
enum class StackWalk {
  none,
  frame_pointers, // by the kernel
  frame_data      // by call frame information, from the registers and bytes of the stack
};
constexpr std::uint32_t default_stack_bytes = 16384; // docs/stacks.md has the measurements

struct CaptureSpec {
  bool on_entry = true;
  bool on_return = false;
  bool pair_calls = false; // an entry and its return make one event or measurement

  bool send_events = true;                     // else they are only counted and measured
  bool count_by_process = false;               // beside the counts by probe
  bool count_stacks = false;                   // the user stacks, by probe
  bool measure_latency = false;                // of pairs
  std::optional<ArgumentSource> measured = {}; // a value instead of latencies

  std::vector<ArgumentList> arguments = {};
  std::vector<ConditionSpec> conditions = {};            // all must hold
  std::chrono::nanoseconds min_latency{0};               // of pairs
  bool registers = false;                                // all of them with each event
  std::uint32_t max_string_bytes = default_string_bytes; // of strings without a length of their own
  StackWalk stack = StackWalk::none; // with each event, also where only its sum is shown
  std::uint32_t stack_bytes = default_stack_bytes; // MIN_STACK_BYTES to MAX_STACK_BYTES
  // With frame_data: what return probes have replaced is in the record where this is known.
  return_instance_layout return_instances = {};
  bool by_trampoline = false;  // returns are told by the kernel's return probes ...
  nesting_layout nesting = {}; // ... which this thread has so many of, where that is known

  unsigned filters = 0; // FILTER_… of bpf/record.h
  std::uint32_t user = 0;
};

enum class CodeKind {
  native,    // C and what calls as C does, of this machine's own kind
  native_32, // 32-bit code of it
  go,        // Go's register ABI
};

// What must be known of the code at a point.
struct CodeAbi {
  CodeKind kind = CodeKind::native;
  std::optional<reading_form> strings; // what a std::string is there; nothing: not known
};

// A point that is probed, and the code there.
struct CapturePoint {
  const ProbePoint* point = nullptr; // borrowed
  CodeAbi code = {};
};

struct PlannedArgument {
  ArgumentSpec spec;
  std::size_t reading = 0; // which of the program's readings it is
  std::string problem;     // of a static probe: why it is not read; mostly empty
};

// What the records of some points hold.
struct RecordFormat {
  std::vector<PlannedArgument> arguments;
  bool six_registers = false; // instead, those of the first six arguments
};

// The process that a record tells of because it has come to a probe by a new way
// (CaptureSpec::count_stacks); nothing where the record is an event's.
std::optional<std::uint32_t> process_with_new_stack(Bytes record);

// What a record has of a user stack.
struct CapturedStack {
  // By frame_data: registers as register_names() has them, and memory, borrowed from the record.
  std::vector<std::uint64_t> registers = {};
  std::uint64_t address = 0;
  Bytes bytes = {};
  bool at_function_entry = false;
  // Return addresses that return probes have, or may have, replaced by the time of the copy.
  std::vector<replaced_return> replaced_returns = {};
  // By frame_pointers: run-time addresses, the first where the thread was. Empty where they could
  // not be read.
  std::vector<std::uint64_t> frames = {};
  // Whom the function returns to that the first of them is in, if that is its entry, where no frame
  // has been made yet and so the caller is missing. 0: nothing is missing, or nobody knows.
  std::uint64_t caller_at_entry = 0;
};

// Borrows the points that it was made for, and nothing else.
class CapturePlan {
public:
  // A probe's number is the index of its point. An error names what cannot be read and why: usage,
  // unsupported.
  static Result<CapturePlan> make(const CaptureSpec& capture, std::span<const CapturePoint> points);

  const std::vector<builtin_settings>& variants() const { return variants_; }
  std::uint32_t probe_variant(std::size_t probe) const { return probes_[probe].variant; }
  // What was asked for and cannot be had there, and why.
  std::vector<std::string> describe_problems(std::size_t probe) const;
  // Whether a list, a condition or a measurement asks for arguments by their number there.
  bool uses_argument_numbers(std::size_t probe) const;

  // The names in the event are the plan's, the point is the one given to make(). corrupt if the
  // record is too short or names a probe that the plan does not have.
  Result<Event> decode(Bytes record) const;
  // Of a record that has been decoded; nothing where none was asked for, or for 32-bit code.
  std::optional<CapturedStack> decode_stack(Bytes record) const;

private:
  std::vector<builtin_settings> variants_;
  struct Probe {
    const ProbePoint* point = nullptr;
    std::uint32_t variant = 0;
  };
  std::vector<RecordFormat> formats_; // by variant
  std::vector<Probe> probes_;         // by number
  bool shows_registers_ = false;      // else they are only there for the stack
  bool copies_stacks_ = false;
  bool compares_arguments_ = false; // in a condition, or measures one
};

} // namespace uprobectl
