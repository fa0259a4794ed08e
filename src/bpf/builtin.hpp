// SPDX-License-Identifier: Apache-2.0
// The built-in program (programs/builtin.bpf.c), loaded into the kernel with its maps and its
// buffer. bpf/record.h defines its settings and records.
#pragma once

#include "bpf/bpf.hpp"
#include "bpf/open_calls.hpp"
#include "bpf/record.h"

#include <array>
#include <functional>
#include <set>

namespace uprobectl::bpf {

// Hits that are not shown, for one reason.
struct HiddenHits {
  std::uint64_t entries = 0;
  std::uint64_t returns = 0;

  void add(std::uint64_t more_entries, std::uint64_t more_returns) {
    entries += more_entries;
    returns += more_returns;
  }
  std::uint64_t all() const { return entries + returns; }
  std::uint64_t calls() const { return entries > 0 ? entries : returns; }
};

// The counters of one probe. They are kept in the kernel and exact even if events were lost.
struct ProbeCounts {
  std::uint64_t entries = 0;
  std::uint64_t returns = 0;  // if calls are paired: those whose entry was seen
  std::uint64_t excluded = 0; // hits excluded by a filter or the minimum latency
  std::uint64_t unpaired = 0; // returns whose entry was not seen
  HiddenHits filtered = {};   // in processes that were not asked for
  HiddenHits invisible = {};  // in processes outside of uprobectl's pid namespace
  // Entries and returns that were left out by sampling and by the rate limit.
  std::uint64_t sampled_out = 0;
  std::uint64_t rate_limited = 0;
  HiddenHits outside = {};         // before the recording started or after it stopped
  std::uint64_t triggers = 0;      // hits of an entry that starts or stops the recording
  std::uint64_t no_return = 0;     // calls that were left without a return
  std::uint64_t ended_no_call = 0; // hits at exits of functions that are jumped to
};

// The hits of one process at one probe.
struct ProcessCount {
  std::uint32_t probe = 0;
  bool at_return = false; // and not at its entry, or of paired calls
  std::uint32_t pid = 0;  // thread group, pid namespace of uprobectl
  std::string comm;       // of the thread that hit first
  std::uint64_t count = 0;
};

// Those with one stack.
struct StackCount : ProcessCount {
  stack_key key; // unique; several keys have the same frames, or none
  // Run-time addresses: the probe, then return addresses, without tags and signatures. Found by
  // frame pointers, except the first caller. Empty if the kernel could not store the stack.
  std::vector<std::uint64_t> frames;
};

// The hits of one probe with the same values.
struct GroupCount {
  std::string key; // a record of the run, without what hits are not counted by
  // With BY_STACK: of this process, as in StackCount.
  std::uint32_t pid = 0;
  std::vector<std::uint64_t> frames;
  group_sums sums = {};
};

// The distribution of the measured numbers of one probe.
struct Histogram {
  std::uint64_t count = 0;
  std::uint64_t negative = 0; // those below 0, which are in no bucket
  std::uint64_t total = 0;    // sum, modulo 2^64
  std::int64_t min = 0;       // valid if count > 0
  std::int64_t max = 0;
  std::vector<std::uint64_t> buckets; // HISTOGRAM_BUCKETS, or none if nothing was measured
};

// Returns the addresses of a stack that the kernel walked, up to the first 0, without tags. Inserts
// the first caller, which frame pointers miss where a function has no frame. `caller`: 0 if it is
// not known, or if the kernel has found it.
std::vector<std::uint64_t> walked_frames(std::span<const std::uint64_t> addresses,
                                         std::uint64_t caller);

// The kind of probe that runs a program.
enum class ProbeRole {
  entry,
  on_return,      // a uretprobe
  exit,           // a plain probe on an instruction that may leave the function
  entry_and_exit, // on the first instruction of a function, which may leave it
};

// An instruction where a probe's function can be left, and the number of the rule that decides
// when.
struct ProbeExit {
  std::uint32_t probe = 0;
  std::uint32_t rule = 0;
  bool at_entry = false; // it is the function's first instruction
  auto operator<=>(const ProbeExit&) const = default;
};

// The filters of a run and what they look up.
struct FilterTables {
  std::vector<filter> filters = {};                                // point_plan::filters names them
  std::vector<set_member> members = {};                            // of all sets
  std::vector<std::pair<text_chunk, record_u32>> text_chunks = {}; // with the next state
  std::vector<std::vector<std::array<record_u16, 256>>> patterns = {}; // states by number
  std::uint32_t pattern_states = 0; // at least as many as any has, a power of two; 0: no patterns
};

// Loads the built-in program, and reads its records, counts and aggregates. The destructor removes
// program and maps from the kernel.
class BuiltinProgram {
public:
  // Some 200 bytes each.
  static constexpr std::uint32_t default_open_spans = 262144;

  struct Probe {
    std::uint32_t plan = 0; // of Settings::plans
    // The file offset. If all probes have one, entry probes may share cookies and perf events.
    std::optional<FileOffset> shared_offset = {};
    std::uint32_t triggers = 0; // enum trigger_flag
  };
  struct Settings {
    ProgramKind kind = ProgramKind::plain;
    RecordBuffer buffer = RecordBuffer::ring;
    // The program can read its cookie; otherwise each cookie needs a copy of the program. Copies
    // are plain programs.
    bool cookie = true;
    // Waits for memory that is not resident. For a ring buffer, cookies, and a mechanism with which
    // sleepable_programs_run() (probe/sleepable.hpp); without `cgroup` and COUNT_STACKS.
    bool sleepable = false;
    std::vector<Probe> probes = {}; // by number
    std::uint32_t spans = 0;        // with SPANS: how many
    std::uint32_t max_open_spans = default_open_spans;
    std::vector<exit_rule> exit_rules = {}; // by number; the first is for return instructions
    std::vector<ProbeExit> exits = {};      // all of them, without repeats
    // The roles of all sites. Programs for other roles are not loaded: the kernel verifies each for
    // milliseconds.
    std::set<ProbeRole> roles = {ProbeRole::entry, ProbeRole::on_return};
    builtin_settings run = {};
    std::vector<point_plan> plans = {}; // by number, at least run.plan_count
    FilterTables filters = {};
    int processes = -1; // a map of process ids for FILTER_BY_PROCESS, borrowed
    int cgroup = -1;    // an open folder of cgroup2 for FILTER_BY_CGROUP, borrowed while loading
    std::uint32_t buffer_bytes = 8U << 20; // a power of two, multiple of the page size; of perf
                                           // buffers it is shared by the CPUs
  };

  // Loads the program and opens the buffer, but attaches nothing. not_permitted
  // names the missing capability or sysctl, unsupported the missing kernel feature.
  // If the verifier rejects the program, the message has the last lines of its log.
  static Result<BuiltinProgram> load(const Settings& settings);

  BuiltinProgram(BuiltinProgram&&) noexcept;
  BuiltinProgram& operator=(BuiltinProgram&&) noexcept;
  ~BuiltinProgram();

  // The program to run at a probe, and the cookie to attach it with. The cookie is not used if
  // Settings::cookie is false. exit_rule: for exits.
  LoadedProgram program(std::uint32_t probe, ProbeRole role, std::uint32_t exit_rule = 0) const;
  std::uint64_t cookie(std::uint32_t probe, ProbeRole role, std::uint32_t exit_rule = 0) const;

  // Hits are counted and recorded only while armed. Not armed after load().
  Result<void> arm(bool on) const;

  // Arms the program once more, for hits of this process. If the recording has stopped, it goes on.
  Result<void> rearm_for(std::uint32_t pid) const;

  // Processes whose code filters can compare with return addresses: 16 KiB each.
  static constexpr std::uint32_t max_caller_processes = 1024;
  // Says where this code lies in a process, if filters compare COMPARE_CALLER. Without it, hits of
  // the process are undecided. Fails if there are too many processes.
  Result<void> set_callers(std::uint32_t process, const caller_map& code);
  void forget_callers(std::uint32_t process);

  // Readable when the program wakes the reader. -1, which poll() ignores, while records that cannot
  // be read yet would keep it readable.
  int poll_fd() const;
  // Passes the pending records to visit until it returns false. The records are in order; those of
  // perf buffers only within one call. The number per call is limited, because a hot probe may add
  // records all the time. Returns true if records may be left.
  bool drain(const std::function<bool(Bytes)>& visit);
  // True if drain() has stopped at a record that a hit has reserved and not submitted yet.
  bool waits() const;
  // Returns the number of records that were reserved long ago and are still not submitted. The
  // records after them are read.
  std::uint64_t unsubmitted() const;

  std::uint64_t lost(lost_reason reason) const; // since load
  // The calls in the table: entered, and not returned.
  struct OpenCalls {
    std::uint64_t waiting = 0;
    std::uint64_t given_up = 0; // their returns are counted as LOST_NO_ENTRY
  };
  OpenCalls open_calls() const;
  // Open calls that were removed from the table, which holds a limited number of them.
  struct ForgottenCalls {
    std::uint64_t ended = 0;    // of processes and threads that have ended
    std::uint64_t given_up = 0; // in favour of newer ones
    // Whether there are more that the program does not use any longer, for the next call to remove.
    bool has_more = false;
  };
  // Makes room for new calls, see CallRoom. Takes a millisecond for some ten thousand open calls.
  ForgottenCalls forget_calls(const CallRoom::HasEnded& has_ended);
  bool recording_has_started() const; // false only before a hit of a probe with STARTS_RECORDING
  bool recording_has_stopped() const;
  // Returns the counters of each span, by enum span_counter. Requires SPANS.
  std::vector<span_counts> counts_of_spans() const;
  // Removes the open spans of the processes for which `is_taken` holds, and returns the hits that
  // began them, in any order. Their stacks are those of SPAN_STACKS. Requires that no hit of these
  // processes follows.
  std::vector<std::vector<std::byte>>
  take_open_spans(const std::function<bool(std::uint32_t process)>& is_taken) const;
  // Returns the frames of a stack as in StackCount; none if the kernel could not store the stack.
  std::vector<std::uint64_t> frames_of(std::int64_t stack, std::uint64_t caller) const;
  std::vector<ProbeCounts> counts() const;          // by number
  std::vector<ProcessCount> process_counts() const; // with COUNT_BY_PROCESS
  std::vector<StackCount> stack_counts() const;     // with COUNT_STACKS
  Histogram histogram(std::uint32_t probe) const;   // with MEASURE_…
  // With builtin_settings::group_by: the groups that `is_wanted` takes by their key and sums.
  using GroupChoice = std::function<bool(const std::string& key, const group_sums& sums)>;
  std::vector<GroupCount> group_counts(const GroupChoice& is_wanted) const;

private:
  struct State;
  explicit BuiltinProgram(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

} // namespace uprobectl::bpf
