// SPDX-License-Identifier: Apache-2.0
// The built-in variables: names with a value at each hit, for --if and --by. What they are in the
// kernel is in bpf/programs/filter.h and bpf/programs/groups.h.
#pragma once

#include "bpf/record.h"
#include "events/events.hpp"

#include <algorithm>
#include <array>

namespace uprobectl {

struct BuiltInVariable {
  std::string_view name;
  std::optional<filter_subject> subject = {}; // what --if compares
  std::optional<group_feature> group = {};    // what --by counts by
  ArgumentType type = ArgumentType::u32;      // or a string
  // Its value in an event; null if events do not have it.
  std::optional<std::uint64_t> (*number)(const Event& event) = nullptr;
  std::string Event::* text = nullptr;
  bool is_alias = false; // another name of the variable before

  bool is_text() const { return type == ArgumentType::string; }
};

template <auto member>
std::optional<std::uint64_t> number_in(const Event& event) {
  return event.*member;
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
    BuiltInVariable{.name = "cpu", .subject = COMPARE_CPU, .number = number_in<&Event::cpu>},
    BuiltInVariable{.name = "uid", .subject = COMPARE_USER},
    BuiltInVariable{.name = "latency",
                    .subject = COMPARE_LATENCY,
                    .type = ArgumentType::u64,
                    .number = number_in<&Event::latency_ns>},
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
    // Of a process a run has one name, but it may have had another one at the hit.
    BuiltInVariable{
        .name = "process", .subject = COMPARE_PROCESS_NAME, .type = ArgumentType::string},
    BuiltInVariable{.name = "caller", .subject = COMPARE_CALLER, .type = ArgumentType::string},
    BuiltInVariable{.name = "stack", .group = BY_STACK},
};

// Returns the variable that --if compares, or that --by counts by.
constexpr const BuiltInVariable& built_in_variable(filter_subject subject) {
  return *std::ranges::find(built_in_variables, subject, &BuiltInVariable::subject);
}
constexpr const BuiltInVariable& built_in_variable(group_feature group) {
  return *std::ranges::find(built_in_variables, group, &BuiltInVariable::group);
}

} // namespace uprobectl
