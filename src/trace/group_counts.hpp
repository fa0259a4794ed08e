// SPDX-License-Identifier: Apache-2.0
// Reports the counts by values (--by) that the built-in program keeps.
#pragma once

#include "trace/aggregate_rows.hpp"
#include "trace/aggregates.hpp"

#include <unordered_map>

namespace uprobectl::trace {

class GroupCounts final : public RunPart {
public:
  // Decodes the key of a group.
  using Decode = std::function<Result<events::Event>(Bytes record)>;

  // Borrows the arguments but `decode`. Counting begins now. `where` gives the debug info and DEX
  // files. `at_exits`: returns are probed there.
  GroupCounts(const AggregateSpec& spec, const events::CaptureSpec& capture,
              const resolve::TargetOptions& where, bool at_exits,
              const bpf::BuiltinProgram& program, std::span<const Probe> probes, Decode decode,
              output::Output& output);

  // Reads the mappings of a process that sent a new stack.
  void add_process(pid_t pid) override { processes_.read_process(pid); }
  void warn() override { warn_without_stack(without_stack_, output_); }
  void report(Time now) override; // the highest count first
  void finish(ProgramResults& results) override { results.without_stack = without_stack_; }

private:
  GroupRows take_new_rows();
  void add_stack(GroupRows::Row& row, const bpf::GroupCount& group);

  const AggregateSpec& spec_;
  const events::CaptureSpec& capture_;
  bool at_exits_;
  const bpf::BuiltinProgram& program_;
  std::span<const Probe> probes_;
  Decode decode_;
  events::EventValues values_;
  std::uint64_t since_ns_ = 0;
  std::unordered_map<std::string, group_sums> reported_; // the sums at the last report, by key
  std::uint64_t without_stack_ = 0;                      // reported hits
  unwind::LiveProcesses processes_;
  output::Output& output_;
};

} // namespace uprobectl::trace
