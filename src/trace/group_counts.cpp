// SPDX-License-Identifier: Apache-2.0
#include "trace/group_counts.hpp"

#include "output/values.hpp"
#include "util/clock.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>
#include <tuple>

namespace uprobectl {

namespace {

// Returns a text that is equal for groups with equal values.
std::string row_key(std::size_t probe, bool on_return, std::span<const ArgumentValue> values) {
  std::string key = fmt::format("{} {} ", probe, on_return);
  for (const ArgumentValue& value : values) {
    append_json_value(key, value.value);
    key += is_cut(value.value) ? "…," : ",";
    key += unread_part(value.value).value_or("");
  }
  return key;
}

} // namespace

GroupCounts::GroupCounts(const AggregateSpec& spec, const CaptureSpec& capture,
                         const TargetOptions& where, const BuiltinProgram& program,
                         std::span<const Probe> probes, Exports& exports, Decode decode)
    : spec_(spec), capture_(capture), program_(program), probes_(probes), exports_(exports),
      decode_(std::move(decode)), since_ns_(to_monotonic_ns(Time::clock::now())),
      processes_({.places = where.debug_places}, where.dex) {
  processes_.keep_unmapped_files();
  if (capture.source_lines) processes_.use_source_lines();
}

// Adds the symbolized stack, and its text to the key, because addresses differ between processes.
void GroupCounts::add_stack(Row& row, const GroupCount& group, std::string& key) {
  const auto pid = static_cast<pid_t>(group.pid);
  const ProbePoint& point = probes_[row.probe].point;
  if (group.frames.empty() || !point.offset) {
    row.stack = processes_.make_stack(pid, 0, group.frames);
  } else {
    const unwind::KnownPlace hit{.pc = group.frames.front(),
                                 .file = point.binary->file,
                                 .path = point.binary->real_path,
                                 .offset = *uprobe_offset(point)};
    row.stack = processes_.make_stack(pid, 0, group.frames, &hit);
  }
  if (group.frames.size() >= MAX_FRAMES) row.completeness = StackCompleteness::truncated;
  for (const unwind::Frame& frame : row.stack->frames) key += display_frame(frame) + "\n";
}

std::vector<GroupCounts::Row> GroupCounts::take_new_rows(Output& output) {
  std::map<std::string, Row> rows;
  const auto is_fresh = [&](const std::string& key, const group_sums& sums) {
    if (sums.count == 0) return false; // the kernel counts after it has made the entry
    const auto known = reported_.find(key);
    return known == reported_.end() || known->second.count != sums.count;
  };
  for (const GroupCount& group : program_.group_counts(is_fresh)) {
    group_sums& before = reported_[group.key];
    const group_sums fresh{.count = group.sums.count - before.count,
                           .measured = group.sums.measured - before.measured,
                           .sum = group.sums.sum - before.sum};
    before = group.sums;
    auto event = decode_(group.record);
    if (!event || event->probe >= probes_.size()) continue; // impossible
    Row row{.probe = probes_[event->probe].first,
            .on_return = event->kind == EventKind::on_return && !capture_.pair_calls,
            .values = group_values(capture_.groups, *event),
            .stack = std::nullopt};
    std::string key = row_key(row.probe, row.on_return, row.values);
    if (capture_.groups.has(BY_STACK)) {
      add_stack(row, group, key);
      if (group.frames.empty()) without_stack_ += fresh.count;
      const StackSample sample{.stack = &*row.stack,
                               .completeness = row.completeness,
                               .hits = fresh.count,
                               .value = static_cast<std::int64_t>(fresh.sum) < 0 ? 0 : fresh.sum};
      exports_.take(sample);
      output.write_copy(sample);
    }
    Row& sum = rows.try_emplace(std::move(key), std::move(row)).first->second;
    sum.sums.count += fresh.count;
    sum.sums.measured += fresh.measured;
    sum.sums.sum += fresh.sum;
  }
  std::vector<Row> result;
  result.reserve(rows.size());
  for (auto& [key, row] : rows) result.push_back(std::move(row));
  return result;
}

void GroupCounts::report(Time now, Output& output) {
  const std::vector<Row> rows = take_new_rows(output);
  // Rows with equal counts stay in the order of their values.
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
    return std::tuple(rows[b].sums.count, a) < std::tuple(rows[a].sums.count, b);
  });
  if (spec_.top && order.size() > *spec_.top) order.resize(*spec_.top);
  const std::uint64_t now_ns = to_monotonic_ns(now);
  const GroupSpec& groups = capture_.groups;
  const bool sums = groups.measured || groups.measures_latency;
  for (const std::size_t index : order) {
    const Row& row = rows[index];
    CountRecord record{.point = &probes_[row.probe].point,
                       .on_return = row.on_return,
                       .count = row.sums.count,
                       .pid = {},
                       .comm = {},
                       .stack = row.stack ? &*row.stack : nullptr,
                       .rest = missing_frames_label(row.completeness),
                       .by = &row.values,
                       .since_ns = since_ns_,
                       .time_ns = now_ns,
                       .is_interval = spec_.interval.has_value()};
    if (sums) record.sums = row.sums;
    record.sums_latency = groups.measures_latency;
    output.write(record);
  }
  output.flush_rows();
  close_unused_files(processes_, output);
  since_ns_ = now_ns;
}

} // namespace uprobectl
