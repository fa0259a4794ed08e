// SPDX-License-Identifier: Apache-2.0
#include "trace/aggregates.hpp"

#include "util/clock.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <tuple>
#include <utility>

namespace uprobectl::trace {

void close_unused_files(unwind::LiveProcesses& processes, output::Output& output) {
  const std::uint64_t before = processes.forgotten_files();
  processes.forget_past();
  processes.make_room();
  const std::uint64_t forgotten = processes.forgotten_files();
  if (before > 0 || forgotten == 0) return;
  output.warn(fmt::format("later stacks may lack names: {} that no process maps {} closed and "
                          "cannot be opened again",
                          counted(forgotten, "deleted file", "deleted files"),
                          forgotten == 1 ? "was" : "were"));
}

void warn_without_stack(std::uint64_t hits, output::Output& output) {
  if (hits > 0) output.warn_once("hits are counted without a stack: the kernel could not store it");
}

KernelAggregates::KernelAggregates(const AggregateSpec& spec, const events::CaptureSpec& capture,
                                   const resolve::TargetOptions& where, bool at_exits,
                                   const bpf::BuiltinProgram& program,
                                   std::span<const Probe> probes, ProcessNameLookup find_name,
                                   output::Output& output)
    : spec_(spec), capture_(capture), at_exits_(at_exits), program_(program), probes_(probes),
      since_ns_(to_monotonic_ns(Time::clock::now())), reported_(probes.size()),
      processes_({.paths = where.debug_paths}, where.dex), find_name_(std::move(find_name)),
      output_(output) {
  processes_.keep_unmapped_files();
  if (capture.source_lines) processes_.use_source_lines();
}

std::vector<CountRow> KernelAggregates::counts_by_probe() {
  std::vector<bpf::ProbeCounts> now = program_.counts();
  for (const Probe& probe : probes_) {
    if (probe.is_first()) continue;
    now[probe.first].entries += std::exchange(now[probe.number].entries, 0);
    now[probe.first].returns += std::exchange(now[probe.number].returns, 0);
  }
  std::vector<CountRow> rows;
  for (const Probe& probe : probes_) {
    const bpf::ProbeCounts before =
        std::exchange(reported_[probe.number].counts, now[probe.number]);
    const std::uint64_t entries = now[probe.number].entries - before.entries;
    const std::uint64_t returns = now[probe.number].returns - before.returns;
    // With paired calls, entry and return are one call.
    if (entries > 0 && !capture_.pair_calls)
      rows.push_back({.probe = probe.number,
                      .record = {.point = &probe.point, .count = entries, .pid = {}, .comm = {}}});
    if (returns > 0)
      rows.push_back({.probe = probe.number,
                      .record = {.point = &probe.point,
                                 .on_return = !capture_.pair_calls,
                                 .count = returns,
                                 .pid = {},
                                 .comm = {}}});
  }
  return rows;
}

std::vector<CountRow>
KernelAggregates::counts_by_process(std::span<const bpf::ProcessCount> counted) {
  std::vector<CountRow> rows;
  std::map<std::pair<std::size_t, std::uint32_t>, std::size_t> known; // by probe and pid
  for (const bpf::ProcessCount& each : counted) {
    std::uint64_t& before = by_process_[{each.probe, each.pid}];
    const std::uint64_t count = each.count - std::exchange(before, each.count);
    if (count == 0 || each.probe >= probes_.size()) continue;
    const std::size_t first = probes_[each.probe].first;
    const auto [at, is_new] = known.emplace(std::pair(first, each.pid), rows.size());
    if (is_new)
      rows.push_back({.probe = first,
                      .record = {.point = &probes_[first].point,
                                 .on_return = !capture_.on_entry,
                                 .count = 0,
                                 .pid = each.pid,
                                 .comm = each.comm}});
    rows[at->second].record.count += count;
  }
  return rows;
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

void KernelAggregates::report(Time now) {
  const CountedTime time{.since_ns = since_ns_, .until_ns = to_monotonic_ns(now)};
  if (spec_.counts && capture_.count_stacks) {
    report_stack_counts(time);
  } else if (spec_.counts && capture_.stack == events::StackWalk::none) {
    std::vector<bpf::ProcessCount> counted =
        capture_.count_by_process ? program_.process_counts() : std::vector<bpf::ProcessCount>();
    for (bpf::ProcessCount& each : counted)
      if (auto name = find_name_(static_cast<pid_t>(each.pid))) each.comm = std::move(*name);
    std::vector<CountRow> rows =
        capture_.count_by_process ? counts_by_process(counted) : counts_by_probe();
    write_counts(std::move(rows), spec_, time, output_);
  }
  if (spec_.histograms) report_histograms(time);
  since_ns_ = time.until_ns;
}

unwind::Stack KernelAggregates::symbolize_stack(const bpf::StackCount& counted) {
  return make_probe_stack(processes_, static_cast<pid_t>(counted.pid), counted.frames,
                          probes_[counted.probe], at_exits_);
}

std::vector<KernelAggregates::CountedStack> KernelAggregates::take_new_stack_counts() {
  std::vector<bpf::StackCount> counted = program_.stack_counts();
  // The code at known addresses may be other code now.
  std::set<std::uint32_t> read;
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::string>, CountedStack> stacks;
  for (bpf::StackCount& each : counted) {
    if (each.probe >= probes_.size()) continue;
    std::uint64_t& before = by_stack_[{each.probe, each.pid, each.frames}];
    const std::uint64_t count = each.count - before;
    before = each.count;
    if (count == 0) continue;
    if (each.frames.empty()) without_stack_ += count;
    if (read.insert(each.pid).second) processes_.read_process(static_cast<pid_t>(each.pid));
    unwind::Stack frames = symbolize_stack(each);
    const auto completeness = // the kernel does not report whether such a stack is complete
        each.frames.size() >= MAX_FRAMES ? output::StackCompleteness::truncated
                                         : output::StackCompleteness::complete;
    std::string text;
    for (const unwind::Frame& frame : frames.frames) text += output::display_frame(frame) + "\n";
    text += missing_frames_label(completeness);
    const bool separate = capture_.count_by_process;
    const auto probe = static_cast<std::uint32_t>(probes_[each.probe].first);
    CountedStack& stack = stacks[{probe, separate ? each.pid : 0, std::move(text)}];
    if (stack.count == 0)
      stack = {.probe = probe,
               .stack = std::move(frames),
               .completeness = completeness,
               .pid = separate ? std::optional(each.pid) : std::nullopt,
               .comm = separate ? find_name_(static_cast<pid_t>(each.pid)).value_or(each.comm)
                                : std::move(each.comm),
               .count = 0};
    stack.count += count;
  }
  std::vector<CountedStack> result;
  for (auto& [key, stack] : stacks) {
    const output::StackSample sample{
        .stack = &stack.stack, .completeness = stack.completeness, .hits = stack.count};
    output_.record(sample);
    result.push_back(std::move(stack));
  }
  return result;
}

void KernelAggregates::report_stack_counts(const CountedTime& time) {
  const std::vector<CountedStack> stacks = take_new_stack_counts();
  std::vector<CountRow> rows;
  for (const CountedStack& each : stacks)
    rows.push_back({.probe = each.probe,
                    .stack = rows.size(),
                    .record = {.point = &probes_[each.probe].point,
                               .on_return = !capture_.on_entry,
                               .count = each.count,
                               .pid = each.pid,
                               .comm = each.comm,
                               .stack = &each.stack,
                               .rest = missing_frames_label(each.completeness)}});
  write_counts(std::move(rows), spec_, time, output_);
  close_unused_files(processes_, output_);
}

} // namespace uprobectl::trace
