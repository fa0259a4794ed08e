// SPDX-License-Identifier: Apache-2.0
#include "trace/event_totals.hpp"

#include "events/event_values.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <tuple>

namespace uprobectl {

namespace {

// Returns the number that is summed; nullopt if the event has none.
std::optional<std::uint64_t> measured_value(const GroupSpec& groups, const Event& event) {
  if (groups.measures_latency) return event.latency_ns;
  if (!groups.measured) return std::nullopt;
  const auto found = find_value(*groups.measured, event);
  const auto number = found ? number_of(found->value) : std::nullopt;
  return number ? std::optional(static_cast<std::uint64_t>(*number)) : std::nullopt;
}

} // namespace

const ProbePoint* EventTotals::first_place(const ProbePoint& point) {
  if (!point.static_probe) return &point;
  if (const auto known = first_places_.find(&point); known != first_places_.end())
    return known->second;
  const auto same = std::ranges::find_if(first_places_, [&](const auto& place) {
    return place.second->binary == point.binary && place.second->symbol == point.symbol;
  });
  const ProbePoint* const first = same == first_places_.end() ? &point : same->second;
  first_places_.emplace(&point, first);
  return first;
}

void EventTotals::count(const Event& event, bool on_return) {
  if (!spec_.counts || event.point == nullptr) return;
  const ProbePoint* const first = first_place(*event.point);
  if (!groups_.by.empty()) return count_values(*first, event, on_return);
  Tally& tally = tallies_[{first, on_return, by_process_ ? event.pid : 0}];
  if (tally.count++ != 0) return;
  tally.probe = event.probe;
  tally.comm = event.comm;
}

void EventTotals::count_values(const ProbePoint& point, const Event& event, bool on_return) {
  std::erase_if(missing_,
                [&](const std::string& name) { return find_value(name, event).has_value(); });
  const auto measured = measured_value(groups_, event);
  // As in the run: an argument comes before the built-in variable of this name.
  std::vector<ArgumentValue> values = group_values(groups_, event);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const GroupValue& asked = groups_.by[i];
    auto argument = asked.fact ? find_value(asked.text, event) : std::nullopt;
    if (!argument) continue;
    argument->name = asked.text; // which outlives the event
    values[i] = std::move(*argument);
  }
  rows_.add({.point = &point,
             .probe = probes_.try_emplace(&point, event.probe).first->second,
             .on_return = on_return,
             .values = std::move(values),
             .sums = {.count = 1,
                      .measured = measured ? std::uint64_t{1} : 0,
                      .sum = measured.value_or(0)}});
}

void EventTotals::measure_call(const ProbePoint& point, std::uint64_t duration_ns) {
  if (spec_.histograms) add_number(latencies_[first_place(point)], duration_ns);
}

void EventTotals::add(const Event& event) {
  if (event.point == nullptr) return;
  // A paired call is one event, at its return.
  count(event, event.kind == EventKind::on_return && !event.latency_ns);
  if (event.latency_ns) measure_call(*event.point, *event.latency_ns);
}

Result<void> EventTotals::report(std::uint64_t since_ns, std::uint64_t until_ns,
                                 Output& output) const {
  if (!missing_.empty() && !probes_.empty())
    return fail(ErrorKind::not_found,
                fmt::format("no event has the value {}", in_single_quotes(missing_.front())));
  rows_.report(groups_, spec_, since_ns, until_ns, output);
  std::vector<const std::pair<const Key, Tally>*> counts;
  for (const auto& tally : tallies_) counts.push_back(&tally);
  // Equal counts are in the order of the request.
  std::ranges::sort(counts, [](const auto* a, const auto* b) {
    return std::tuple(b->second.count, a->second.probe, a->first.on_return, a->first.pid) <
           std::tuple(a->second.count, b->second.probe, b->first.on_return, b->first.pid);
  });
  if (spec_.top && counts.size() > *spec_.top) counts.resize(*spec_.top);
  for (const auto* each : counts) {
    const auto& [key, tally] = *each;
    output.write(CountRecord{.point = key.point,
                             .on_return = key.on_return,
                             .count = tally.count,
                             .pid = by_process_ ? std::optional(key.pid) : std::nullopt,
                             .comm = tally.comm,
                             .since_ns = since_ns,
                             .time_ns = until_ns});
  }
  std::vector<const std::pair<const ProbePoint* const, Histogram>*> histograms;
  for (const auto& measured : latencies_) histograms.push_back(&measured);
  std::ranges::sort(histograms,
                    [](const auto* a, const auto* b) { return a->second.count > b->second.count; });
  if (spec_.top && histograms.size() > *spec_.top) histograms.resize(*spec_.top);
  for (const auto* each : histograms)
    output.write(HistogramRecord{.point = each->first,
                                 .in_nanoseconds = true,
                                 .histogram = each->second,
                                 .since_ns = since_ns,
                                 .time_ns = until_ns});
  output.flush_rows();
  return {};
}

} // namespace uprobectl
