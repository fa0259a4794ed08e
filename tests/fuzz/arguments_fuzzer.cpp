// SPDX-License-Identifier: Apache-2.0
// Argument lists and filters, as --args and --if take them, and the values of --sample and
// --max-rate.
#include "events/limits.hpp"
#include "events/plan.hpp"

#include <algorithm>
#include <cstdlib>

using namespace uprobectl;

int fuzz_arguments(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  static_cast<void>(events::parse_sample(text));
  if (const auto rate = events::parse_rate(text);
      rate && (rate->events == 0 || rate->events > MAX_WINDOW_COUNT))
    std::abort();
  events::CaptureSpec inspection{.on_return = true};
  if (auto list = events::parse_arguments(text)) {
    list->function.reset();
    inspection.arguments.push_back(std::move(*list));
  }
  const auto read_set = [](const std::string& path) -> Result<std::string> {
    return path + "\n0x10\n# none\n-1";
  };
  if (auto filter = events::parse_filter(text, read_set)) inspection.filter = std::move(*filter);
  const resolve::ProbePoint point;
  const events::CapturePoint probed{
      .point = &point, .code = {.kind = events::CodeKind::native, .strings = READ_LIBCXX_STRING}};
  const auto plan = events::CapturePlan::make(inspection, std::span(&probed, 1));
  if (!plan) return 0;
  // What is planned lies inside the record.
  const builtin_settings& settings = plan->settings();
  if (settings.max_bytes_offset + settings.max_capacity > settings.record_size) std::abort();
  for (const point_plan& made : plan->plans())
    for (const reading& each : std::span(made.readings, made.reading_count))
      if (each.bytes_offset > settings.max_bytes_offset || each.capacity > settings.max_capacity ||
          each.steps > settings.max_steps || each.base >= events::register_names().size() ||
          each.length_from > made.reading_count)
        std::abort();
  // A filter ends: all targets are later terms.
  for (const filter& made : plan->filters().filters)
    for (std::size_t i = 0; i < made.term_count; ++i) {
      const filter_term& term = made.terms[i];
      for (const std::size_t target : {term.if_true, term.if_false, term.if_unknown})
        if (target <= i || (target >= made.term_count && target < FILTER_HOLDS)) std::abort();
      if (term.if_unknown != term.if_true && term.if_unknown != term.if_false) std::abort();
      if (term.value.length_from > made.term_count + made.reading_count) std::abort();
      if (term.subject == COMPARE_CALLER) {
        if (term.constant >= CALLER_MAPPED) std::abort();
        continue;
      }
      if (term.comparison == MATCHES && term.constant >= plan->filters().patterns.size())
        std::abort();
    }
  // The NUL at the end of a text decides. Buffers have a known size instead.
  const bool has_bytes =
      std::ranges::any_of(inspection.filter.terms, &events::ConditionSpec::compares_bytes);
  for (const auto& pattern : plan->filters().patterns)
    for (const auto& state : pattern)
      if ((!has_bytes && state[0] > PATTERN_ACCEPTS) ||
          std::ranges::any_of(state, [&](auto next) { return next >= pattern.size(); }))
        std::abort();
  const std::vector<std::byte> record(settings.record_size);
  if (!plan->decode(record)) std::abort();
  return 0;
}
