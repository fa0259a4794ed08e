// SPDX-License-Identifier: Apache-2.0
#include "trace/group_rows.hpp"

#include "output/values.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <tuple>

namespace uprobectl {

void GroupRows::add(Row row) {
  std::string key = fmt::format("{} {} ", row.probe, row.on_return);
  for (const ArgumentValue& value : row.values) {
    append_json_value(key, value.value);
    key += is_cut(value.value) ? "…," : ",";
    key += unread_part(value.value).value_or("");
  }
  // Addresses differ between processes.
  if (row.stack)
    for (const unwind::Frame& frame : row.stack->frames) key += display_frame(frame) + "\n";
  const group_sums added = std::exchange(row.sums, {});
  group_sums& sums = rows_.try_emplace(std::move(key), std::move(row)).first->second.sums;
  sums.count += added.count;
  sums.measured += added.measured;
  sums.sum += added.sum;
}

void GroupRows::report(const GroupSpec& groups, const AggregateSpec& spec, std::uint64_t since_ns,
                       std::uint64_t until_ns, Output& output) const {
  std::vector<const std::pair<const std::string, Row>*> order;
  for (const auto& row : rows_) order.push_back(&row);
  // Rows with equal counts are in the order of their values.
  std::ranges::sort(order, [](const auto* a, const auto* b) {
    return std::tie(b->second.sums.count, a->first) < std::tie(a->second.sums.count, b->first);
  });
  if (spec.top && order.size() > *spec.top) order.resize(*spec.top);
  for (const auto* each : order) {
    const Row& row = each->second;
    CountRecord record{.point = row.point,
                       .on_return = row.on_return,
                       .count = row.sums.count,
                       .pid = {},
                       .comm = {},
                       .stack = row.stack ? &*row.stack : nullptr,
                       .rest = missing_frames_label(row.completeness),
                       .by = &row.values,
                       .since_ns = since_ns,
                       .time_ns = until_ns,
                       .is_interval = spec.interval.has_value()};
    if (groups.measured || groups.measures_latency) record.sums = row.sums;
    record.sums_latency = groups.measures_latency;
    output.write(record);
  }
  output.flush_rows();
}

} // namespace uprobectl
