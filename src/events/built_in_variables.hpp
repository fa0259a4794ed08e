// SPDX-License-Identifier: Apache-2.0
// The built-in variables: names with a value at each hit, for --if and --by. What they are in the
// kernel is in bpf/programs/filter.h and bpf/programs/groups.h.
#pragma once

#include "bpf/record.h"
#include "events/events.hpp"
#include "events/presentation.hpp"
#include "events/value_path.hpp"

#include <algorithm>
#include <array>

namespace uprobectl::events {

struct BuiltInVariable {
  std::string_view name;
  std::optional<filter_subject> subject = {}; // what --if compares
  std::optional<group_feature> group = {};    // what --by counts by
  ArgumentType type = ArgumentType::u32;      // a number or a string
  bool is_errno = false;                      // its numbers have names
  std::optional<call_time> time = {};         // which time of a call it is, in ns
  // Its value in an event; null if events do not have it.
  std::optional<std::uint64_t> (*number)(const Event& event) = nullptr;
  std::string Event::* text = nullptr;
  bool is_alias = false; // another name of the previous variable

  bool is_text() const { return type == ArgumentType::string; }
};

template <auto member>
std::optional<std::uint64_t> number_in(const Event& event) {
  return event.*member;
}

inline std::optional<std::uint64_t> errno_in(const Event& event) {
  if (!event.failed.value_or(true)) return 0;
  if (!event.failed || event.return_errno == 0) return std::nullopt;
  return static_cast<std::uint64_t>(event.return_errno);
}

constexpr std::array built_in_variables = {
    BuiltInVariable{.name = "tid",
                    .subject = COMPARE_THREAD_ID,
                    .group = BY_THREAD_ID,
                    .number = number_in<&Event::tid>},
    BuiltInVariable{.name = "pid",
                    .subject = COMPARE_PROCESS_ID,
                    .group = BY_PROCESS_ID,
                    .number = number_in<&Event::pid>},
    BuiltInVariable{
        .name = "cpu", .subject = COMPARE_CPU, .group = BY_CPU, .number = number_in<&Event::cpu>},
    BuiltInVariable{.name = "uid", .subject = COMPARE_USER},
    BuiltInVariable{.name = "latency",
                    .subject = COMPARE_LATENCY,
                    .type = ArgumentType::u64,
                    .time = TIME_LATENCY,
                    .number = number_in<&Event::latency_ns>},
    BuiltInVariable{.name = "on_cpu",
                    .subject = COMPARE_ON_CPU,
                    .type = ArgumentType::u64,
                    .time = TIME_ON_CPU,
                    .number = on_cpu_ns},
    BuiltInVariable{.name = "waiting",
                    .subject = COMPARE_WAITING,
                    .type = ArgumentType::u64,
                    .time = TIME_WAITING,
                    .number = number_in<&Event::waiting_ns>},
    BuiltInVariable{.name = "preempted",
                    .subject = COMPARE_PREEMPTED,
                    .type = ArgumentType::u64,
                    .time = TIME_PREEMPTED,
                    .number = caused_ns<WAIT_PREEMPTED>},
    BuiltInVariable{.name = "slept",
                    .subject = COMPARE_SLEPT,
                    .type = ArgumentType::u64,
                    .time = TIME_SLEPT,
                    .number = caused_ns<WAIT_SLEPT>},
    BuiltInVariable{.name = "blocked",
                    .subject = COMPARE_BLOCKED,
                    .type = ArgumentType::u64,
                    .time = TIME_BLOCKED,
                    .number = caused_ns<WAIT_BLOCKED>},
    BuiltInVariable{.name = "thread",
                    .subject = COMPARE_THREAD_NAME,
                    .group = BY_THREAD_NAME,
                    .type = ArgumentType::string,
                    .text = &Event::comm},
    BuiltInVariable{.name = "comm",
                    .subject = COMPARE_THREAD_NAME,
                    .group = BY_THREAD_NAME,
                    .type = ArgumentType::string,
                    .text = &Event::comm,
                    .is_alias = true},
    // Events do not have the name of the process. A run knows one name of each process, which may
    // have been another one at the hit.
    BuiltInVariable{
        .name = "process", .subject = COMPARE_PROCESS_NAME, .type = ArgumentType::string},
    BuiltInVariable{.name = "caller", .subject = COMPARE_CALLER, .type = ArgumentType::string},
    BuiltInVariable{.name = "failed",
                    .subject = COMPARE_FAILED,
                    .group = BY_FAILED,
                    .type = ArgumentType::boolean,
                    .number = number_in<&Event::failed>},
    // errno is 0 if the call did not fail.
    BuiltInVariable{.name = "errno",
                    .subject = COMPARE_ERRNO,
                    .group = BY_ERRNO,
                    .type = ArgumentType::s32,
                    .is_errno = true,
                    .number = errno_in},
    BuiltInVariable{.name = "stack", .group = BY_STACK},
};

// Whether it is the outcome of a call of a known function, which readings tell.
constexpr bool is_outcome(std::optional<filter_subject> subject) {
  return subject == COMPARE_FAILED || subject == COMPARE_ERRNO;
}
constexpr bool is_outcome(std::optional<group_feature> group) {
  return group == BY_FAILED || group == BY_ERRNO;
}

// Returns the time of a call that has this name.
constexpr std::optional<call_time> find_time(std::string_view name) {
  const auto* const found = std::ranges::find(built_in_variables, name, &BuiltInVariable::name);
  return found != built_in_variables.end() ? found->time : std::nullopt;
}
inline std::optional<call_time> find_time(const std::optional<SummedValue>& value) {
  return value ? find_time(value->text) : std::nullopt;
}
// Whether only runs with CaptureSpec::tracks_waits know it.
constexpr bool needs_waits(std::optional<call_time> time) { return time && *time != TIME_LATENCY; }
// Whether only runs with CaptureSpec::tracks_causes know it.
constexpr bool needs_causes(std::optional<call_time> time) {
  return needs_waits(time) && *time >= TIME_PREEMPTED;
}
inline std::optional<std::uint64_t> time_in(const Event& event, call_time time) {
  return std::ranges::find(built_in_variables, std::optional(time), &BuiltInVariable::time)
      ->number(event);
}

// Returns the variable that --if compares, or that --by counts by.
constexpr const BuiltInVariable& built_in_variable(filter_subject subject) {
  return *std::ranges::find(built_in_variables, subject, &BuiltInVariable::subject);
}
constexpr const BuiltInVariable& built_in_variable(group_feature group) {
  return *std::ranges::find(built_in_variables, group, &BuiltInVariable::group);
}

// Returns which time of a call it is, if it is one.
constexpr std::optional<call_time> call_time_of(filter_subject subject) {
  if (subject == COMPARE_READING) return std::nullopt;
  return built_in_variable(subject).time;
}

} // namespace uprobectl::events
