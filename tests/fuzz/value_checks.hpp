// SPDX-License-Identifier: Apache-2.0
// Makes values of a function in several ways, from types of debug information or of a plan, and
// decodes what a hit might have read. Readings must keep the limits.
#pragma once

#include "dwarf/go_types.hpp"
#include "events/path_resolver.hpp"

#include <cstdlib>
#include <limits>

namespace uprobectl {

class Answers {
public:
  explicit Answers(Bytes input) {
    for (const std::byte each : input)
      state_ = (state_ ^ static_cast<std::uint64_t>(each)) * 0x100000001b3;
  }

  std::vector<events::ReadResult> make(std::span<const reading> readings) {
    contents_.clear();
    contents_.reserve(readings.size());
    std::vector<events::ReadResult> made;
    for (const reading& each : readings) {
      std::string& content = contents_.emplace_back(next() % (each.capacity + 1), '\0');
      for (char& byte : content) byte = static_cast<char>(next());
      constexpr std::uint64_t values[] = {0, 1, 3, std::numeric_limits<std::uint64_t>::max()};
      const std::uint64_t which = next() % 8;
      made.push_back({.was_read = next() % 8 != 0,
                      .status = next() % 8 == 0 ? -14 : static_cast<std::int64_t>(content.size()),
                      .value = which < 4 ? values[which] : next(),
                      .bytes = std::as_bytes(std::span(content)),
                      .is_truncated = next() % 4 == 0});
    }
    return made;
  }

private:
  std::uint64_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_ >> 11;
  }

  std::uint64_t state_ = 0xcbf29ce484222325;
  std::vector<std::string> contents_;
};

inline void check_values(const events::ValuePlan& values, const events::TypedLimits& limits,
                         Answers& hits) {
  const auto& readings = values.readings();
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < readings.size(); ++i) {
    for (const std::size_t source :
         {readings[i].base_from, readings[i].offset_from, readings[i].length_from})
      if (source > i) std::abort();
    if (readings[i].steps > MAX_STEPS || readings[i].size > 8) std::abort();
    bytes += readings[i].capacity;
  }
  if (readings.size() > limits.max_readings || bytes > limits.max_bytes) std::abort();
  if (!events::check_readings(readings, {.entry = true, .exit = true, .paired = true}))
    std::abort();
  for (int round = 0; round < 2; ++round) {
    events::Event call{.kind = events::EventKind::on_return, .has_arguments = true};
    values.decode(call, hits.make(readings), 0);
    if (!call.typed_arguments) std::abort();
  }
}

inline void check_captures(const dwarf::FunctionInfo& function, VirtualAddress address,
                           std::string_view line, const dwarf::GoTypes* go_types, Answers& hits) {
  const events::CaptureSpec pairs{.pair_calls = true};
  resolve::ProbePoint point;
  point.address = address;
  const auto readings = events::ReadingBuilder::make(pairs, false, {.point = &point});
  if (!readings) std::abort();
  events::TypedPoint typed{.function = &function};
  typed.find_go_types = [go_types] { return go_types; };
  typed.at_entry = function.entry == address;
  typed.phases = {.entry = true, .exit = true, .paired = true};
  events::TypedLimits limits;
  check_values(events::ValuePlan::make(*readings, typed, limits), limits, hits);
  limits.depth = events::max_typed_depth;
  limits.max_bytes = 100;
  check_values(events::ValuePlan::make(*readings, typed, limits), limits, hits);
  limits.scalars_only = true;
  check_values(events::ValuePlan::make(*readings, typed, limits), limits, hits);
  if (const auto list = events::parse_arguments(line); list && !list->paths.empty()) {
    std::vector<std::optional<Error>> problems;
    const events::TypedLimits usual;
    check_values(events::ValuePlan::make(*readings, typed, usual, list->paths, problems), usual,
                 hits);
    if (problems.size() != list->paths.size()) std::abort();
  }
  if (const auto filter = events::parse_filter(line))
    for (const events::ConditionSpec& each : filter->terms)
      if (each.path)
        if (auto value = find_compared(*readings, typed, *each.path, use_of(each), true))
          if (const auto term = compile_condition(each, std::move(*value)))
            static_cast<void>(check_condition(*term, typed.phases).has_value());
}

} // namespace uprobectl
