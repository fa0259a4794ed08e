// SPDX-License-Identifier: Apache-2.0
// The user stacks of a run's hits: from what a record has of them to frames; counted by how they
// end, saved, and written as folded lines and a flame graph.
#pragma once

#include "output/flame_graph.hpp"
#include "trace/trace.hpp"
#include "unwind/live.hpp"

#include <deque>
#include <functional>
#include <poll.h>
#include <set>
#include <unordered_map>

namespace uprobectl {

// Whether a stack goes to where its thread began, as far as is known.
enum class StackCompleteness : std::uint8_t { complete, truncated, incomplete };
// What stands for the frames that are not known, as their outermost: "[cut off]"; empty of a whole
// stack. Else that would look like one that begins there.
std::string_view missing_frames_label(StackCompleteness completeness);

// The files that all stacks of a run go to: folded lines and a flame graph.
class StackFiles {
public:
  // Opens what is asked for, so that a bad path fails before anything is probed. What was in the
  // files stays there until they are written. `capture`: of the stacks that will be added.
  static Result<StackFiles> open(const StackOutputs& outputs, const CaptureSpec& capture);

  bool wanted() const { return folded_ || flame_graph_; }
  // `weight`: hits, or nanoseconds.
  void add(const unwind::Stack& stack, StackCompleteness completeness, std::uint64_t weight);

  // "10s, 4711 stacks, 2 truncated"
  Result<void> write(std::string subtitle);

private:
  struct File {
    std::string path;
    UniqueFd fd;
    Result<void> write(std::string_view text) const;
  };
  static Result<std::optional<File>> open(const std::optional<std::string>& path);

  StackTree tree_;
  std::optional<File> folded_;
  std::optional<File> flame_graph_;
  std::string title_;
  std::string unit_;
};

// What became of the stacks of a run. What the kernel has symbolize_walked is whole as far as it
// tells, unless it has as many frames as it can.
struct StackTotals {
  std::uint64_t all = 0;
  std::uint64_t truncated = 0; // more of the stack would have to be copied, or symbolize_walked
  std::uint64_t failed = 0;    // ended otherwise than where the thread began
  std::string failure;         // why the first of them has
  std::uint64_t saved = 0;
  std::uint64_t lost_mappings = 0; // records of what processes map that found their buffer full
};

// What a process is called, whichever of its threads was hit, also when it has ended; nothing if it
// is not known.
using ProcessNames = std::function<std::optional<std::string>(pid_t)>;

// Who can be hit.
struct HitProcesses {
  bool others = false; // also such as are not, or do not come from, those that run
  // Those that run, all of them as far as they are known. Asked when what processes map is watched
  // already, so that none is missed that begins meanwhile.
  std::function<std::vector<pid_t>()> running;
  ProcessNames name_of = [](pid_t) { return std::nullopt; };
};

class HitStacks {
public:
  // Borrows all of it but who can be hit. What they map is watched from now on. `where`: debug info
  // and DEX files.
  HitStacks(const CaptureSpec& capture, const StackOutputs& outputs, const TargetOptions& where,
            const HitProcesses& who, StackFiles& files, Output& output);

  void add_to(std::vector<pollfd>& polled) const;
  // What processes have mapped since the last time: their records wait in buffers that have bounds.
  void look();

  // Valid until the next question. Hits are asked for by time, so that each is seen with what was
  // mapped then.
  const unwind::Stack* find(const Event& event, const CapturedStack& captured);
  StackCompleteness completeness() const { return completeness_; } // of that

  const StackTotals& totals();

private:
  void queue_mapping_events();
  void reread_after_loss();
  void apply_first_event();
  void apply_events_until(std::uint64_t time_ns);
  bool has_newer_program(pid_t pid);
  unwind::Registers make_registers(const CapturedStack& captured) const;
  unwind::Stack symbolize_walked(pid_t pid, std::uint64_t time_ns, const CapturedStack& captured);
  StackCompleteness classify(const CapturedStack& captured, const unwind::Sample& sample);
  bool is_truncated(const CapturedStack& captured) const;
  std::string explain_failure(const CapturedStack& captured) const;
  void save(const unwind::Sample& sample);
  void report_not_saved(const Error& why) const;

  const CaptureSpec& capture_;
  const StackOutputs& outputs_;
  StackFiles& files_;
  Output& output_;
  std::optional<MappingWatch> watch_;
  std::uint64_t events_read_ns_ = 0;                      // CLOCK_MONOTONIC
  std::uint64_t handled_losses_ = 0;                      // records that were lost by then
  std::uint64_t next_reread_ns_ = 0;                      // likewise not before
  std::deque<MappingEvent> waiting_;                      // by time: for hits that come after them
  std::unordered_map<pid_t, std::size_t> program_starts_; // those of them that begin a program
  unwind::LiveProcesses processes_;
  std::vector<unwind::KnownReturn> known_returns_;               // of the last hit
  unwind::Stack stack_;                                          // likewise
  StackCompleteness completeness_ = StackCompleteness::complete; // likewise
  StackTotals totals_;
  std::set<std::pair<unwind::End, std::uint64_t>> saved_; // and where in its module it ended
  std::size_t next_folder_ = 1;
};

// User stacks that come with what users' programs send.

// By map. Perf event arrays have them where --stack asks, and where their name ends in
// "_with_stack". unsupported where it asks and there is no such map; of other buffers it is told
// that they have none.
Result<std::vector<StackRequest>> choose_stream_stacks(std::span<const UserMap> maps,
                                                       const CaptureSpec& capture, Output& output);

void report_sender(Event& event, const SenderContext& from);

// Nothing of a 32-bit process and of a thread of the kernel's, which have no stack to unwind.
std::optional<CapturedStack> make_captured_stack(const SenderContext& from);
bool is_32bit_process(const SenderContext& from); // a 32-bit process

} // namespace uprobectl
