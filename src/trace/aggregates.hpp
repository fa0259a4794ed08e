// SPDX-License-Identifier: Apache-2.0
// Counts and histograms that the built-in program keeps in the kernel, on their way to the output:
// at the end of a run, or one after each interval of it.
#pragma once

#include "trace/hit_stacks.hpp"
#include "trace/probes.hpp"
#include "trace/trace.hpp"

#include <chrono>
#include <deque>
#include <map>

namespace uprobectl {

class KernelAggregates {
public:
  using Time = std::chrono::steady_clock::time_point; // CLOCK_MONOTONIC

  // Borrows all of it but `name_of`, which is HitProcesses::name_of. Counting begins now.
  // `where`: debug info and DEX files.
  KernelAggregates(const AggregateSpec& asked, const CaptureSpec& capture,
                   const TargetOptions& where, const BuiltinProgram& program,
                   std::span<const Probe> probes, StackFiles& files, ProcessNames name_of);

  // A process has come to a probe by a new way: what it maps will be asked for.
  void add_process(pid_t pid) { processes_.look_at(pid); }

  // What has come since the last time. Probes that were not hit have no count, but a histogram.
  void report(Time now, Output& output);
  // Hits told so far whose stacks the kernel could not keep.
  std::uint64_t without_stack() const { return without_stack_; }

private:
  std::vector<CountRecord> counts_by_probe();
  std::vector<CountRecord> counts_by_process(std::span<const ProcessCount> counted);
  void report_stack_counts(std::uint64_t now_ns, Output& output);
  // What of these counts is new, by way: those that several processes have in common are one.
  struct CountedStack {
    std::uint32_t probe = 0;
    unwind::Stack stack;
    StackCompleteness completeness = StackCompleteness::complete;
    std::optional<std::uint32_t> pid; // where processes are counted for themselves
    std::string comm;
    std::uint64_t count = 0;
  };
  unwind::Stack symbolize_stack(const StackCount& counted);
  std::vector<CountedStack> take_new_stack_counts();
  void report_histograms(std::uint64_t now_ns, Output& output);

  const AggregateSpec& asked_;
  const CaptureSpec& capture_;
  const BuiltinProgram& program_;
  StackFiles& files_; // of what the kernel has counted
  std::span<const Probe> probes_;
  std::uint64_t since_ns_;
  // By number, when it was reported last.
  struct Reported {
    ProbeCounts counts;
    Histogram histogram;
  };
  std::vector<Reported> reported_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> by_process_; // by probe and pid
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::vector<std::uint64_t>>, std::uint64_t>
      by_stack_; // by probe, pid and addresses
  std::uint64_t without_stack_ = 0;
  unwind::LiveProcesses processes_;
  ProcessNames name_of_;
};

// How often each unwound stack was met: `--count --stack`.

class UnwoundCounts {
public:
  using Time = std::chrono::steady_clock::time_point; // CLOCK_MONOTONIC

  // Borrows all of it but `name_of`. What the stacks lie in must outlive it. Counting begins now.
  UnwoundCounts(const AggregateSpec& asked, const CaptureSpec& capture,
                std::span<const Probe> probes, Output& output,
                ProcessNames name_of = HitProcesses().name_of);

  // Beyond 65536 different stacks, or a million frames of them, new ones count as one without
  // frames.
  void add(const Event& event, const unwind::Stack& stack, StackCompleteness completeness);
  // What has come since the last time, the most first.
  void report(Time now);

private:
  struct Key {
    std::size_t probe = 0; // Probe::first
    bool on_return = false;
    std::uint32_t pid = 0; // where processes are counted for themselves
    StackCompleteness completeness = StackCompleteness::complete;
    const unwind::Stack* stack = nullptr; // never null; once it is kept one of stacks_
  };
  // Frames by the places that they lie at, which processes have in common.
  struct Order {
    bool operator()(const Key& left, const Key& right) const;
  };
  struct StackTally {
    std::string comm;
    std::uint64_t count = 0;
    std::uint64_t reported = 0; // of count
  };
  const unwind::Stack* keep(const unwind::Stack& stack);
  bool has_room_for(const unwind::Stack& stack);

  const AggregateSpec& asked_;
  const CaptureSpec& capture_;
  std::span<const Probe> probes_;
  Output& output_;
  ProcessNames name_of_;
  std::map<Key, StackTally, Order> tallies_;
  std::deque<unwind::Stack> stacks_;
  std::size_t frames_ = 0; // of all of them
  std::uint64_t since_ns_;
};

} // namespace uprobectl
