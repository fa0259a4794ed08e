// SPDX-License-Identifier: Apache-2.0
#include "trace/builtin_loader.hpp"

#include "bpf/load_error.hpp"
#include "events/plan_layout.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>

namespace uprobectl::trace {

// Whether the run reads memory, for which a sleepable program may wait, and uses nothing that Linux
// rejects in one: the maps of control groups and stacks.
bool BuiltinLoader::can_wait(const bpf::BuiltinProgram::Settings& settings) const {
  const builtin_settings& run = settings.run;
  const unsigned excluded = COUNT_STACKS | SPAN_STACKS | FILTER_BY_CGROUP;
  const bool reads =
      events::reads_memory(run, settings.plans, settings.filters.filters) ||
      std::ranges::any_of(settings.exit_rules, events::loads_memory, &exit_rule::tested);
  // With perf events and tracefs, Linux before 6.10 lets other hits on this CPU wait as well. So
  // wait only if specific processes were requested.
  const ProcessFilter& processes = request_.processes;
  const bool is_for_all =
      processes.all || (processes.pids.empty() && processes.names.empty() &&
                        processes.command.empty() && !request_.probes.target_options.app);
  if (settings.kind == bpf::ProgramKind::plain && is_for_all) return false;
  return !request_.no_fault && settings.cookie && settings.buffer == bpf::RecordBuffer::ring &&
         (run.flags & excluded) == 0 && (run.group_by & BY_STACK) == 0 && reads;
}

bool BuiltinLoader::may_need_test(const bpf::BuiltinProgram::Settings& settings,
                                  unsigned filters) const {
  const events::CaptureSpec& capture = request_.capture;
  return !request_.no_fault && settings.cookie && settings.buffer == bpf::RecordBuffer::ring &&
         settings.kind != bpf::ProgramKind::plain && capture.send_events && !capture.count_stacks &&
         capture.groups.by.empty() && (filters & FILTER_BY_CGROUP) == 0;
}

void BuiltinLoader::begin_test(probe::Mechanism mechanism) {
  if (!sleepable_test_) sleepable_test_.emplace(start_sleepable_test(mechanism));
}

// Halves the buffer, and with it the tables, until the program fits.
Result<bpf::BuiltinProgram>
BuiltinLoader::load_into_limit(bpf::BuiltinProgram::Settings& settings) {
  constexpr std::uint32_t min_bytes = 64U << 10U;
  const std::uint32_t wanted = settings.buffer_bytes;
  auto program = bpf::BuiltinProgram::load(settings);
  while (!program && program.error().kind == ErrorKind::not_permitted &&
         settings.buffer_bytes > min_bytes && bpf::exceeds_bpf_memory_limit(EPERM)) {
    settings.buffer_bytes /= 2;
    program = bpf::BuiltinProgram::load(settings);
  }
  if (program && settings.buffer_bytes < wanted)
    output_.warn(fmt::format("RLIMIT_MEMLOCK limits BPF memory on this kernel: the buffer has {} "
                             "KiB instead of {}, so more events may be lost",
                             settings.buffer_bytes >> 10U, wanted >> 10U));
  return program;
}

Result<bpf::BuiltinProgram> BuiltinLoader::load(bpf::BuiltinProgram::Settings& settings,
                                                probe::Mechanism mechanism) {
  settings.sleepable = can_wait(settings);
  // Loading is safe on all kernels. The test runs meanwhile.
  if (settings.sleepable)
    begin_test(mechanism);
  else
    sleepable_test_.reset();
  auto program = load_into_limit(settings);
  if (!settings.sleepable || (program && sleepable_test_->answer() == 1)) return program;
  output_.detail(program ? "sleepable programs do not run at probes of this kernel"
                         : "the sleepable program cannot be loaded: " + program.error().message);
  settings.sleepable = false;
  return load_into_limit(settings);
}

void BuiltinLoader::poll_test() {
  if (sleepable_test_ && sleepable_test_->has_ended()) sleepable_test_.reset();
}

} // namespace uprobectl::trace
