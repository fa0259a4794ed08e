// SPDX-License-Identifier: Apache-2.0
#include "trace/group_counts.hpp"

#include "util/clock.hpp"

namespace uprobectl::trace {

GroupCounts::GroupCounts(const AggregateSpec& spec, const events::CaptureSpec& capture,
                         const resolve::TargetOptions& where, bool at_exits,
                         const bpf::BuiltinProgram& program, std::span<const Probe> probes,
                         Decode decode, output::Output& output)
    : spec_(spec), capture_(capture), at_exits_(at_exits), program_(program), probes_(probes),
      decode_(std::move(decode)), since_ns_(to_monotonic_ns(Time::clock::now())),
      processes_({.paths = where.debug_paths}, where.dex), output_(output) {
  processes_.keep_unmapped_files();
  if (capture.source_lines) processes_.use_source_lines();
}

// Adds the symbolized stack.
void GroupCounts::add_stack(GroupRows::Row& row, const bpf::GroupCount& group) {
  row.stack = make_kept_stack(make_probe_stack(processes_, static_cast<pid_t>(group.pid),
                                               group.frames, probes_[row.probe], at_exits_));
  if (group.frames.size() >= MAX_FRAMES) row.completeness = output::StackCompleteness::truncated;
}

GroupRows GroupCounts::take_new_rows() {
  GroupRows rows;
  const auto is_fresh = [&](const std::string& key, const group_sums& sums) {
    if (sums.count == 0) return false; // the kernel counts after it has made the entry
    const auto known = reported_.find(key);
    return known == reported_.end() || known->second.count != sums.count;
  };
  for (const bpf::GroupCount& group : program_.group_counts(is_fresh)) {
    group_sums& before = reported_[group.key];
    const group_sums fresh{.count = group.sums.count - before.count,
                           .measured = group.sums.measured - before.measured,
                           .sum = group.sums.sum - before.sum};
    before = group.sums;
    auto event = decode_(as_bytes(group.key));
    if (!event || event->probe >= probes_.size()) continue; // impossible
    const std::size_t probe = probes_[event->probe].first;
    GroupRows::Row row{.point = &probes_[probe].point,
                       .probe = probe,
                       .on_return =
                           event->kind == events::EventKind::on_return && !capture_.pair_calls,
                       .values = group_values(capture_.groups, *event, values_),
                       .sums = fresh};
    if (capture_.groups.has(BY_STACK)) {
      add_stack(row, group);
      if (group.frames.empty()) without_stack_ += fresh.count;
      const output::StackSample sample{
          .stack = &row.stack->stack,
          .completeness = row.completeness,
          .hits = fresh.count,
          .value = static_cast<std::int64_t>(fresh.sum) < 0 ? 0 : fresh.sum};
      output_.record(sample);
    }
    rows.add(std::move(row));
  }
  return rows;
}

void GroupCounts::report(Time now) {
  const GroupRows rows = take_new_rows();
  const std::uint64_t now_ns = to_monotonic_ns(now);
  rows.report(capture_.groups, spec_, {.since_ns = since_ns_, .until_ns = now_ns}, output_);
  close_unused_files(processes_, output_);
  since_ns_ = now_ns;
}

} // namespace uprobectl::trace
