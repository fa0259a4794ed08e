// SPDX-License-Identifier: Apache-2.0
#include "events/call_report.hpp"

#include <algorithm>
#include <utility>

namespace uprobectl::events {

namespace {

constexpr std::pair<std::string_view, ReportColumn> columns[] = {
    {"calls", ReportColumn::calls}, {"total", ReportColumn::total}, {"self", ReportColumn::self},
    {"min", ReportColumn::min},     {"avg", ReportColumn::avg},     {"max", ReportColumn::max},
    {"p50", ReportColumn::p50},     {"p99", ReportColumn::p99},     {"name", ReportColumn::name},
};

std::uint64_t to_unsigned(std::int64_t number) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(number, 0));
}

std::uint64_t number_in(const FunctionSummary& function, ReportColumn column) {
  switch (column) {
  case ReportColumn::calls:
    return function.calls;
  case ReportColumn::total:
    return function.total_ns;
  case ReportColumn::self:
    return function.self_ns;
  case ReportColumn::min:
    return to_unsigned(function.durations.min);
  case ReportColumn::avg:
    return function.average_ns();
  case ReportColumn::max:
    return to_unsigned(function.durations.max);
  case ReportColumn::p50:
    return to_unsigned(percentile(function.durations, 50).value_or(0));
  case ReportColumn::p99:
    return to_unsigned(percentile(function.durations, 99).value_or(0));
  case ReportColumn::name:
    break;
  }
  return 0;
}

std::string_view name_of(const FunctionSummary& function) {
  if (function.point == nullptr) return {};
  if (function.point->demangled) return *function.point->demangled;
  return function.point->symbol ? std::string_view(*function.point->symbol) : std::string_view();
}

} // namespace

std::optional<ReportColumn> parse_report_column(std::string_view name) {
  for (const auto& [known, column] : columns)
    if (known == name) return column;
  return std::nullopt;
}

CallReport::Edge CallReport::edge_of(const OpenCall& call) const {
  Edge edge{.caller = std::nullopt, .callee = call.probe};
  if (call.parent)
    if (const auto parent = open_.find(*call.parent); parent != open_.end())
      edge.caller = parent->second.probe;
  return edge;
}

void CallReport::opened(const OpenCall& call, const Event& /*entry*/) {
  FunctionSummary& function = functions_[call.probe];
  function.probe = call.probe;
  function.point = call.point;
  ++function.calls;
  ++edges_[edge_of(call)].calls;
  Open open{.probe = call.probe, .outermost = call.id};
  if (call.parent)
    if (const auto parent = open_.find(*call.parent); parent != open_.end())
      open.outermost = parent->second.outermost;
  open_.emplace(call.id, open);
  ++active_[{.outermost = open.outermost, .probe = call.probe}];
}

void CallReport::closed(const OpenCall& call, CallEnd end, std::uint64_t end_ns,
                        const Event* /*exit*/) {
  const auto open = open_.find(call.id);
  if (open == open_.end()) return;
  const auto active =
      active_.find({.outermost = open->second.outermost, .probe = open->second.probe});
  open_.erase(open);
  const bool is_outermost = --active->second == 0;
  if (is_outermost) active_.erase(active);

  FunctionSummary& function = functions_[call.probe];
  if (end == CallEnd::no_return_seen) ++function.no_return;
  if (end == CallEnd::lost || end == CallEnd::run_ended) {
    ++function.unfinished;
    return;
  }
  const std::uint64_t duration = duration_of(call, end_ns);
  if (is_outermost) function.total_ns += duration;
  function.self_ns += duration - std::min(duration, call.children_ns);
  add_duration(function.durations, duration);
  if (const auto on_cpu = on_cpu_ns(call, end_ns)) {
    ++function.timed;
    if (is_outermost) function.on_cpu_ns += *on_cpu;
    if (call.caused_ns && !function.caused_ns) function.caused_ns.emplace();
    for (std::size_t i = 0; call.caused_ns && is_outermost && i < WAIT_CAUSES; ++i)
      (*function.caused_ns)[i] += (*call.caused_ns)[i];
    function.self_on_cpu_ns += *on_cpu - std::min(*on_cpu, call.children_on_cpu_ns);
  }
  edges_[edge_of(call)].total_ns += duration;
}

std::vector<FunctionSummary> CallReport::functions(ReportColumn column) const {
  std::vector<FunctionSummary> all;
  for (const auto& [probe, function] : functions_) all.push_back(function);
  std::ranges::sort(all, [&](const FunctionSummary& one, const FunctionSummary& other) {
    if (column == ReportColumn::name && name_of(one) != name_of(other))
      return name_of(one) < name_of(other);
    const std::uint64_t number = number_in(one, column);
    const std::uint64_t other_number = number_in(other, column);
    return number != other_number ? number > other_number : one.probe < other.probe;
  });
  return all;
}

std::vector<CallEdge> CallReport::edges() const {
  std::vector<std::pair<Edge, EdgeSums>> sorted(edges_.begin(), edges_.end());
  std::ranges::sort(sorted, [](const auto& one, const auto& other) {
    if (one.second.total_ns != other.second.total_ns)
      return one.second.total_ns > other.second.total_ns;
    return one.first < other.first;
  });
  std::vector<CallEdge> all;
  for (const auto& [edge, sums] : sorted)
    all.push_back({.caller = edge.caller ? point_of(*edge.caller) : nullptr,
                   .callee = point_of(edge.callee),
                   .calls = sums.calls,
                   .total_ns = sums.total_ns});
  return all;
}

} // namespace uprobectl::events
