// SPDX-License-Identifier: Apache-2.0
#include "trace/aggregate_rows.hpp"

#include "output/values.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <tuple>

namespace uprobectl::trace {

void write_counts(std::vector<CountRow> rows, const AggregateSpec& spec, const CountedTime& time,
                  output::Output& output) {
  const auto order = [](const CountRow& row) {
    return std::tuple(row.probe, row.record.on_return, row.record.pid, row.stack);
  };
  std::ranges::sort(rows, [&](const CountRow& a, const CountRow& b) {
    if (a.record.count != b.record.count) return a.record.count > b.record.count;
    return order(a) < order(b);
  });
  if (spec.top && rows.size() > *spec.top) rows.resize(*spec.top);
  for (CountRow& row : rows) {
    set_time(row.record, spec, time);
    output.write(row.record);
  }
  output.flush_rows();
}

void write_histograms(std::vector<output::HistogramRecord> records, const AggregateSpec& spec,
                      const CountedTime& time, output::Output& output) {
  std::multimap<std::uint64_t, output::HistogramRecord*, std::greater<>> order; // by count
  for (output::HistogramRecord& record : records)
    order.emplace(spec.top ? record.histogram.count : 0, &record);
  std::size_t left = spec.top.value_or(records.size());
  for (const auto& [count, record] : order) {
    if (left-- == 0) break;
    set_time(*record, spec, time);
    output.write(*record);
  }
  output.flush_rows();
}

void GroupRows::add(Row row) {
  std::string key = fmt::format("{} {} {} {} ", row.map, row.probe, row.on_return, row.span);
  for (const events::ArgumentValue& value : row.values) {
    output::append_json_value(key, value.value);
    key += is_cut(value.value) ? "…," : ",";
    key += unread_part(value.value).value_or("");
  }
  // Addresses differ between processes.
  if (row.stack) key.append(row.stack->text).append(missing_frames_label(row.completeness));
  const group_sums added = std::exchange(row.sums, {});
  if (rows_.size() >= max_rows_ && !rows_.contains(key)) {
    left_out_ += added.count;
    return;
  }
  group_sums& sums = rows_.try_emplace(std::move(key), std::move(row)).first->second.sums;
  sums.count += added.count;
  sums.measured += added.measured;
  sums.sum += added.sum;
}

void GroupRows::report(const events::GroupSpec& groups, const AggregateSpec& spec,
                       const CountedTime& time, output::Output& output) const {
  std::vector<const std::pair<const std::string, Row>*> order;
  for (const auto& row : rows_) order.push_back(&row);
  // Rows with equal counts are in the order of their values.
  const auto rank = [](const Row& row) { return row.are_open ? row.sums.sum : 0; };
  std::ranges::sort(order, [&](const auto* a, const auto* b) {
    return std::tuple(rank(b->second), b->second.sums.count, std::string_view(a->first)) <
           std::tuple(rank(a->second), a->second.sums.count, std::string_view(b->first));
  });
  if (spec.top && order.size() > *spec.top) order.resize(*spec.top);
  for (const auto* each : order) {
    const Row& row = each->second;
    output::CountRecord record{.point = row.point,
                               .map = row.map,
                               .on_return = row.on_return,
                               .count = row.sums.count,
                               .pid = {},
                               .comm = {},
                               .stack = row.stack ? &row.stack->stack : nullptr,
                               .rest = missing_frames_label(row.completeness),
                               .by = &row.values,
                               .span = row.span,
                               .are_open = row.are_open};
    set_time(record, spec, time);
    if (groups.measured || groups.measured_time) record.sums = row.sums;
    record.sums_latency = groups.measured_time.has_value();
    output.write(record);
  }
  output.flush_rows();
  if (left_out_ > 0)
    output.warn(fmt::format("more than {} different values: {} not counted", max_rows_,
                            counted(left_out_, "hit with others is", "hits with others are")));
}

} // namespace uprobectl::trace
