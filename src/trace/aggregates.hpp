// SPDX-License-Identifier: Apache-2.0
// Reports aggregates at the end of a run or after each interval: counts, also by values (--by), and
// histograms that the built-in program keeps in the kernel.
#pragma once

#include "trace/aggregate_rows.hpp"
#include "trace/hit_stacks.hpp"
#include "trace/probes.hpp"
#include "trace/run_part.hpp"
#include "trace/trace.hpp"

#include <chrono>
#include <map>
#include <unordered_map>

namespace uprobectl::trace {

// Warns during a run, once, if hits are counted whose stacks the kernel could not store.
void warn_without_stack(std::uint64_t hits, output::Output& output);

// Reads and reports the counts and measurements of the built-in program.
class KernelAggregates final : public RunPart {
public:
  // Decodes the key of a group (--by).
  using Decode = std::function<Result<events::Event>(Bytes record)>;

  // Borrows the arguments but `decode` and `find_name`, which is HitProcesses::find_name. Counting
  // begins now. `where` gives the debug info and DEX files. `at_exits`: returns are probed at
  // exits, not by uretprobes.
  KernelAggregates(const AggregateSpec& spec, const events::CaptureSpec& capture,
                   const resolve::TargetOptions& where, bool at_exits,
                   const bpf::BuiltinProgram& program, std::span<const Probe> probes, Decode decode,
                   ProcessNameLookup find_name, output::Output& output);

  // Reads the mappings of a process that sent a new stack.
  void on_new_stack(pid_t pid) override { processes_.read_process(pid); }
  void warn() override { warn_without_stack(without_stack_, output_); }
  // Probes without hits get no count record, but an empty histogram.
  void report_aggregates(Time now) override;
  void finish(ProgramResults& results) override { results.without_stack = without_stack_; }

private:
  // Add what was counted since the last report.
  void add_probes(CountRows& rows);
  void add_processes(CountRows& rows);
  void add_stacks(CountRows& rows);
  void add_groups(CountRows& rows);
  // Symbolizes the stack that the kernel has walked. Counts the row's hits if there is none.
  void set_stack(CountRow& row, std::uint32_t pid, std::span<const std::uint64_t> frames,
                 const Probe& probe);
  void close_unused_files();
  void report_histograms(const CountedTime& time);

  const AggregateSpec& spec_;
  const events::CaptureSpec& capture_;
  bool at_exits_;
  const bpf::BuiltinProgram& program_;
  std::span<const Probe> probes_;
  Decode decode_;
  events::EventValues values_;
  std::uint64_t since_ns_;
  // The counts at the last report: by probe number, by probe and pid, by probe, pid and addresses,
  // and by the key of a group.
  struct Reported {
    bpf::ProbeCounts counts;
    bpf::Histogram histogram;
  };
  std::vector<Reported> reported_;
  std::map<std::tuple<std::uint32_t, std::uint32_t, bool>, std::uint64_t> by_process_;
  std::map<std::array<std::uint64_t, 4>, std::uint64_t> by_stack_; // by the members of stack_key
  std::unordered_map<std::string, group_sums> by_group_;
  std::uint64_t without_stack_ = 0; // reported hits whose stacks the kernel could not store
  unwind::LiveProcesses processes_;
  ProcessNameLookup find_name_;
  output::Output& output_;
};

} // namespace uprobectl::trace
