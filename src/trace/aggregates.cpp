// SPDX-License-Identifier: Apache-2.0
#include "trace/aggregates.hpp"

#include "util/clock.hpp"
#include "util/text.hpp"

#include <fmt/format.h>
#include <set>
#include <utility>

namespace uprobectl::trace {

void warn_without_stack(std::uint64_t hits, output::Output& output) {
  if (hits > 0) output.warn_once("hits are counted without a stack: the kernel could not store it");
}

KernelAggregates::KernelAggregates(const AggregateSpec& spec, const events::CaptureSpec& capture,
                                   const resolve::TargetOptions& where, bool at_exits,
                                   const bpf::BuiltinProgram& program,
                                   std::span<const Probe> probes, Decode decode,
                                   ProcessNameLookup find_name, output::Output& output)
    : spec_(spec), capture_(capture), at_exits_(at_exits), program_(program), probes_(probes),
      decode_(std::move(decode)), since_ns_(to_monotonic_ns(Time::clock::now())),
      reported_(probes.size()), processes_({.paths = where.debug_paths}, where.dex),
      find_name_(std::move(find_name)), output_(output) {
  processes_.keep_unmapped_files();
  if (capture.source_lines) processes_.use_source_lines();
}

void KernelAggregates::add_probes(CountRows& rows) {
  const std::vector<bpf::ProbeCounts> counted = program_.counts();
  for (const Probe& probe : probes_) {
    const bpf::ProbeCounts& now = counted[probe.number];
    const bpf::ProbeCounts before = std::exchange(reported_[probe.number].counts, now);
    const auto add = [&](std::uint64_t count, bool on_return) {
      if (count > 0)
        rows.add({.point = &probes_[probe.first].point,
                  .probe = probe.first,
                  .on_return = on_return,
                  .sums = {.count = count}});
    };
    // With paired calls, entry and return are one call.
    if (!capture_.pair_calls) add(now.entries - before.entries, false);
    add(now.returns - before.returns, !capture_.pair_calls);
  }
}

void KernelAggregates::add_processes(CountRows& rows) {
  for (const bpf::ProcessCount& each : program_.process_counts()) {
    std::uint64_t& before = by_process_[{each.probe, each.pid, each.at_return}];
    const std::uint64_t count = each.count - std::exchange(before, each.count);
    if (count == 0 || each.probe >= probes_.size()) continue;
    const std::size_t first = probes_[each.probe].first;
    rows.add({.point = &probes_[first].point,
              .probe = first,
              .on_return = each.at_return,
              .pid = each.pid,
              .comm = each.comm,
              .sums = {.count = count}});
  }
}

void KernelAggregates::set_stack(CountRow& row, std::uint32_t pid,
                                 std::span<const std::uint64_t> frames, const Probe& probe) {
  row.stack = make_kept_stack(
      make_probe_stack(processes_, static_cast<pid_t>(pid), frames, probe, at_exits_));
  if (frames.empty()) without_stack_ += row.sums.count;
  // The kernel does not report whether such a stack is complete.
  if (frames.size() >= MAX_FRAMES) row.completeness = output::StackCompleteness::truncated;
}

// Equal stacks of several processes are one row, unless processes are counted separately.
void KernelAggregates::add_stacks(CountRows& rows) {
  std::set<std::uint32_t> read; // processes whose mappings were read again: they may have changed
  for (const bpf::StackCount& each : program_.stack_counts()) {
    const auto& [pid, counted_probe, stack, caller] = each.key;
    if (each.probe >= probes_.size()) continue;
    std::uint64_t& before =
        by_stack_[{pid, counted_probe, static_cast<std::uint64_t>(stack), caller}];
    const std::uint64_t count = each.count - std::exchange(before, each.count);
    if (count == 0) continue;
    if (read.insert(pid).second) processes_.read_process(static_cast<pid_t>(pid));
    const Probe& probe = probes_[each.probe];
    CountRow row{.point = &probes_[probe.first].point,
                 .probe = probe.first,
                 .on_return = each.at_return,
                 .sums = {.count = count}};
    if (capture_.count_by_process) {
      row.pid = pid;
      row.comm = each.comm;
    }
    set_stack(row, pid, each.frames, probe);
    rows.add(std::move(row));
  }
}

void KernelAggregates::add_groups(CountRows& rows) {
  const auto is_fresh = [&](const std::string& key, const group_sums& sums) {
    if (sums.count == 0) return false; // the kernel counts after it has made the entry
    const auto known = by_group_.find(key);
    return known == by_group_.end() || known->second.count != sums.count;
  };
  for (const bpf::GroupCount& group : program_.group_counts(is_fresh)) {
    const group_sums before = std::exchange(by_group_[group.key], group.sums);
    auto event = decode_(as_bytes(group.key));
    if (!event || event->probe >= probes_.size()) continue; // impossible
    const Probe& probe = probes_[probes_[event->probe].first];
    CountRow row{.point = &probe.point,
                 .probe = probe.number,
                 .on_return = event->kind == events::EventKind::on_return && !capture_.pair_calls,
                 .values = group_values(capture_.groups, *event, values_),
                 .sums = {.count = group.sums.count - before.count,
                          .measured = group.sums.measured - before.measured,
                          .sum = group.sums.sum - before.sum}};
    if (capture_.groups.has(BY_STACK)) set_stack(row, group.pid, group.frames, probe);
    rows.add(std::move(row));
  }
}

// Closes files whose symbols name stacks in reports. Warns once if later stacks may lack names.
void KernelAggregates::close_unused_files() {
  const std::uint64_t before = processes_.forgotten_files();
  processes_.forget_past();
  processes_.make_room();
  const std::uint64_t forgotten = processes_.forgotten_files();
  if (before > 0 || forgotten == 0) return;
  output_.warn(fmt::format("later stacks may lack names: {} that no process maps {} closed and "
                           "cannot be opened again",
                           counted(forgotten, "deleted file", "deleted files"),
                           forgotten == 1 ? "was" : "were"));
}

void KernelAggregates::report_histograms(const CountedTime& time) {
  std::vector<output::HistogramRecord> records;
  std::vector<bpf::Histogram> sums(probes_.size());
  for (const Probe& probe : probes_)
    events::add(sums[probe.first], program_.histogram(static_cast<std::uint32_t>(probe.number)));
  for (const Probe& probe : probes_) {
    if (!probe.is_first()) continue;
    bpf::Histogram& now = sums[probe.number];
    bpf::Histogram& before = reported_[probe.number].histogram;
    records.push_back({.point = &probe.point,
                       .in_nanoseconds = capture_.measured_time.has_value(),
                       .histogram = events::subtract(now, before)});
    before = std::move(now);
  }
  write_histograms(std::move(records), spec_, time, output_);
}

void KernelAggregates::report_aggregates(Time now) {
  const CountedTime time{.since_ns = since_ns_, .until_ns = to_monotonic_ns(now)};
  since_ns_ = time.until_ns;
  const bool has_groups = !capture_.groups.by.empty();
  // Stacks that are unwound are counted by CountedEvents.
  const bool is_counted =
      has_groups || capture_.count_stacks || capture_.stack == events::StackWalk::none;
  if (spec_.counts && is_counted) {
    CountRows rows;
    if (has_groups)
      add_groups(rows);
    else if (capture_.count_stacks)
      add_stacks(rows);
    else
      capture_.count_by_process ? add_processes(rows) : add_probes(rows);
    rows.record_stacks(output_);
    rows.report(capture_.groups, spec_, time, output_, find_name_);
    close_unused_files();
  }
  if (spec_.histograms && !has_groups) report_histograms(time);
}

} // namespace uprobectl::trace
