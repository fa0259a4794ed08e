// SPDX-License-Identifier: Apache-2.0
// Reports aggregates at the end of a run or after each interval: counts and histograms that the
// built-in program keeps in the kernel.
#pragma once

#include "trace/aggregate_rows.hpp"
#include "trace/hit_stacks.hpp"
#include "trace/probes.hpp"
#include "trace/run_part.hpp"
#include "trace/trace.hpp"

#include <chrono>
#include <map>
#include <set>

namespace uprobectl::trace {

// Of stacks that are named when they are reported. Warns once if later ones may lack names.
void close_unused_files(unwind::LiveProcesses& processes, output::Output& output);

// Warns during a run, once, if hits are counted whose stacks the kernel could not store.
void warn_without_stack(std::uint64_t hits, output::Output& output);

// The counts, stack counts and histograms of the built-in program.
class KernelAggregates final : public RunPart {
public:
  // Borrows the arguments but `find_name`, which is HitProcesses::find_name. Counting begins now.
  // `where` gives the debug info and DEX files. `at_exits`: returns are probed there.
  KernelAggregates(const AggregateSpec& spec, const events::CaptureSpec& capture,
                   const resolve::TargetOptions& where, bool at_exits,
                   const bpf::BuiltinProgram& program, std::span<const Probe> probes,
                   ProcessNameLookup find_name, output::Output& output);

  // Reads the mappings of a process that sent a new stack.
  void add_process(pid_t pid) override { processes_.read_process(pid); }
  void warn() override { warn_without_stack(without_stack_, output_); }
  // Probes without hits have no count record, but a histogram.
  void report(Time now) override;
  void finish(ProgramResults& results) override { results.without_stack = without_stack_; }

private:
  std::vector<CountRow> counts_by_probe();
  std::vector<CountRow> counts_by_process(std::span<const bpf::ProcessCount> counted);
  void report_stack_counts(const CountedTime& time);
  // Counts since the last report; equal stacks of several processes are one, unless processes are
  // counted separately.
  struct CountedStack {
    std::uint32_t probe = 0;
    unwind::Stack stack;
    output::StackCompleteness completeness = output::StackCompleteness::complete;
    std::optional<std::uint32_t> pid; // if processes are counted separately
    std::string comm;
    std::uint64_t count = 0;
  };
  unwind::Stack symbolize_stack(const bpf::StackCount& counted);
  std::vector<CountedStack> take_new_stack_counts();
  void report_histograms(const CountedTime& time);

  const AggregateSpec& spec_;
  const events::CaptureSpec& capture_;
  bool at_exits_;
  const bpf::BuiltinProgram& program_;
  std::span<const Probe> probes_;
  std::uint64_t since_ns_;
  // The values at the last report, by probe number.
  struct Reported {
    bpf::ProbeCounts counts;
    bpf::Histogram histogram;
  };
  std::vector<Reported> reported_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> by_process_; // by probe and pid
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::vector<std::uint64_t>>, std::uint64_t>
      by_stack_;                    // by probe, pid and addresses
  std::uint64_t without_stack_ = 0; // reported hits whose stacks the kernel could not store
  unwind::LiveProcesses processes_;
  ProcessNameLookup find_name_;
  output::Output& output_;
};

} // namespace uprobectl::trace
