// SPDX-License-Identifier: Apache-2.0
#include "trace/aggregate_rows.hpp"

#include "output/values.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <ranges>

namespace uprobectl::trace {

namespace {

void write_row(auto& record, const AggregateSpec& spec, const CountedTime& time,
               output::Output& output) {
  record.since_ns = time.since_ns;
  record.time_ns = time.until_ns;
  record.is_interval = spec.interval.has_value();
  output.write(record);
}

} // namespace

void CountRows::add(CountRow row) {
  Key key{.map = row.map,
          .probe = row.probe,
          .on_return = row.on_return,
          .pid = row.pid,
          .span = row.span,
          .values = {},
          .completeness = row.completeness,
          .stack = row.stack ? std::string_view(row.stack->text) : "-"}; // not a frame
  for (const events::ArgumentValue& value : row.values) {
    const std::size_t begin = key.values.size();
    output::append_json_value(key.values, value.value);
    // JSON has one replacement character for all bytes that are not UTF-8; text distinguishes them.
    if (key.values.find("\uFFFD", begin) != std::string::npos)
      output::append_text_value(key.values, value.value);
    key.values += is_truncated(value.value) ? "…," : ",";
    key.values += unread_part(value.value).value_or("");
  }
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

void CountRows::record_stacks(output::Output& output) const {
  for (const auto& [key, row] : rows_) {
    if (!row.stack) continue;
    output::StackSample sample{
        .stack = &row.stack->stack, .completeness = row.completeness, .hits = row.sums.count};
    if (row.sums.measured > 0) sample.value = row.sums.sum;
    output.record(sample);
  }
}

void CountRows::report(const events::GroupSpec& groups, const AggregateSpec& spec,
                       const CountedTime& time, output::Output& output,
                       const ProcessNameLookup& find_name) const {
  // The rows by their counts, those of open spans by their sums; equal ones stay in the order of
  // their keys.
  std::multimap<std::pair<record_u64, record_u64>, const CountRow*, std::greater<>> order;
  for (const auto& [key, row] : rows_)
    order.emplace(std::pair(row.are_open ? row.sums.sum : 0, row.sums.count), &row);
  for (const auto& [rank, row] : order | std::views::take(spec.top.value_or(order.size()))) {
    const auto name = row->pid ? find_name(static_cast<pid_t>(*row->pid)) : std::nullopt;
    output::CountRecord record{.point = row->point,
                               .map = row->map,
                               .on_return = row->on_return,
                               .count = row->sums.count,
                               .pid = row->pid,
                               .comm = name ? *name : row->comm,
                               .stack = row->stack ? &row->stack->stack : nullptr,
                               .rest = missing_frames_label(row->completeness),
                               .by = groups.by.empty() ? nullptr : &row->values,
                               .sums_duration = groups.measured_time.has_value(),
                               .span = row->span,
                               .are_open = row->are_open};
    if (groups.measured || groups.measured_time) record.sums = row->sums;
    write_row(record, spec, time, output);
  }
  output.flush_rows();
  if (left_out_ > 0)
    output.warn(fmt::format("more than {} different values: {} not counted", max_rows_,
                            counted(left_out_, "hit with others is", "hits with others are")));
}

void write_histograms(std::vector<output::HistogramRecord> records, const AggregateSpec& spec,
                      const CountedTime& time, output::Output& output) {
  std::multimap<std::uint64_t, output::HistogramRecord*, std::greater<>> order; // by count
  for (output::HistogramRecord& record : records)
    order.emplace(spec.top ? record.histogram.count : 0, &record);
  for (const auto& [count, record] : order | std::views::take(spec.top.value_or(order.size())))
    write_row(*record, spec, time, output);
  output.flush_rows();
}

} // namespace uprobectl::trace
