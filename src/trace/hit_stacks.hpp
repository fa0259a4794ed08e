// SPDX-License-Identifier: Apache-2.0
// The user stacks of a run's hits: unwinds or symbolizes them, classifies how they end, saves
// incomplete ones, and passes them to the exports.
#pragma once

#include "output/exports.hpp"
#include "trace/run_part.hpp"
#include "trace/trace.hpp"
#include "unwind/live.hpp"

#include <deque>
#include <functional>
#include <poll.h>
#include <set>
#include <unordered_map>

namespace uprobectl::trace {

// Totals of the stacks of a run. The kernel does not report whether a stack that it walked is
// complete; one with the maximum number of frames counts as truncated.
struct StackTotals {
  std::uint64_t all = 0;
  std::uint64_t truncated = 0; // a larger copy, or more frames, would be needed
  std::uint64_t failed = 0;    // incomplete for another reason
  std::string failure;         // the reason of the first of these
  std::uint64_t saved = 0;
  // Mapping records that the kernel dropped because their buffer was full.
  std::uint64_t lost_mappings = 0;
  bool has_source_lines = false; // a frame has a source line, if these are requested
};

// Returns the name of a process (not of a thread), also after it has ended; nullopt if unknown.
using ProcessNameLookup = std::function<std::optional<std::string>(pid_t)>;

// The processes that can hit the probes.
struct HitProcesses {
  // Processes other than the running ones and their descendants can hit the probes.
  bool include_others = false;
  // Returns the running processes, as far as known. Call it when mappings are already watched, so
  // that no process that starts meanwhile is missed.
  std::function<std::vector<pid_t>()> running;
  ProcessNameLookup find_name = [](pid_t) { return std::nullopt; };
};

// Unwinds or symbolizes the stack of each hit with what its process mapped at the time of the hit.
class HitStacks final : public RunPart {
public:
  // Borrows the arguments but `processes`. Watches mappings from now on. HitStacks uses `where`
  // only for the debug info and DEX files.
  HitStacks(const events::CaptureSpec& capture, const StackOutputs& outputs,
            const resolve::TargetOptions& where, const HitProcesses& processes,
            output::Output& output);

  // Call it if only addresses are symbolized: there are then no messages about stacks.
  void only_symbolize() { has_stacks_ = false; }

  void add_to(std::vector<pollfd>& polled) const override;
  // Reads the mapping events since the last call. Call it often: the kernel's buffers are bounded.
  void update(Time /*now*/) override { read_mapping_events(); }
  void warn() override;
  void finish(ProgramResults& results) override;

  // Unwinds the stack of the event, counts it, and gives it to the recorders of the output. The
  // stack is valid until the next call. Call it with increasing event times, so that each stack is
  // resolved with what was mapped then. Returns null with CaptureSpec::raw_stacks: the recorders of
  // the output get the stack.
  const unwind::Stack* unwind_hit(const events::Event& event,
                                  const events::CapturedStack& captured);
  output::StackCompleteness completeness() const { return completeness_; } // of the last stack
  // Makes the caller responsible for sample(): unwind_hit() no longer passes stacks to the
  // recorders.
  void hold_samples() { holds_samples_ = true; }
  const output::StackSample* sample() const { return holds_samples_ ? &sample_ : nullptr; }

  // Symbolizes addresses with what the process had mapped at the time (CLOCK_MONOTONIC). 0 means
  // now, or when the process ended. All but the first are return addresses.
  unwind::Stack symbolize(pid_t pid, std::uint64_t time_ns,
                          std::span<const std::uint64_t> addresses);

  // Returns the totals so far.
  const StackTotals& totals();

private:
  void read_mapping_events();
  void queue_mapping_events();
  void reread_after_loss();
  void apply_first_mapping_event();
  void apply_mapping_events_until(std::uint64_t time_ns);
  bool has_newer_program(pid_t pid);
  std::vector<process::Mapping> find_later_mappings(pid_t pid);
  unwind::Registers make_registers(const events::CapturedStack& captured) const;
  unwind::Stack symbolize_walked(pid_t pid, std::uint64_t time_ns,
                                 const events::CapturedStack& captured);
  void classify_and_save(const events::CapturedStack& captured, const unwind::Sample& sample);
  void write_raw(const events::Event& event, const unwind::Sample& sample);
  void save(const unwind::Sample& sample);
  void report_not_saved(const Error& why) const;

  const events::CaptureSpec& capture_;
  const StackOutputs& outputs_;
  output::Output& output_;
  bool has_stacks_ = true;
  std::optional<process::MappingWatch> watch_;
  std::uint64_t mapping_events_read_ns_ = 0;  // CLOCK_MONOTONIC
  std::uint64_t handled_losses_ = 0;          // number of lost records at the last reread
  std::uint64_t next_reread_ns_ = 0;          // CLOCK_MONOTONIC
  std::deque<process::MappingEvent> waiting_; // mapping events by time, to apply before later hits
  // Number of forks and execs in waiting_, by pid.
  std::unordered_map<pid_t, std::size_t> program_starts_;
  unwind::LiveProcesses processes_;
  std::vector<unwind::KnownReturn> known_returns_;                               // of the last hit
  unwind::Stack stack_;                                                          // of the last hit
  output::StackCompleteness completeness_ = output::StackCompleteness::complete; // of the last hit
  bool holds_samples_ = false;
  output::StackSample sample_; // of the last hit
  StackTotals totals_;
  events::EventValues values_;
  // Reasons of saved stacks, with the address in the module where the stack ended.
  std::set<std::pair<unwind::End, std::uint64_t>> saved_;
  std::size_t next_folder_ = 1;
};

// Keeps the frames valid until the end of the run, although their files may be closed before.
// `names` gets the names of their mappings, to which frames refer.
void keep_frames(std::span<unwind::Frame> frames, std::set<std::string, std::less<>>& names);

// Returns the frame that called the function of the innermost frame, inlined frames aside. Null if
// the stack does not have it.
const unwind::Frame* find_caller(const unwind::Stack& stack);

// Whether a frame has a position in source code.
bool has_source_lines(const unwind::Stack& stack);

// Returns which stack the records of each map carry. Perf event arrays carry them if --stack is
// given, or if their name ends in "_with_stack". Fails with unsupported if --stack is given and no
// map can carry them; warns of other buffers.
Result<std::vector<bpf::StackRequest>> choose_map_stacks(std::span<const bpf::UserMap> maps,
                                                         const events::CaptureSpec& capture,
                                                         output::Output& output);

// Sets the time, process, thread and CPU of the event.
void set_sender(events::Event& event, const bpf::SenderContext& from);

// Returns nullopt for 32-bit processes and kernel threads, whose stacks are not unwound.
std::optional<events::CapturedStack> make_captured_stack(const bpf::SenderContext& from);
bool is_32bit_process(const bpf::SenderContext& from);

} // namespace uprobectl::trace
