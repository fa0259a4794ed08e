// The built-in program, loaded into the kernel with its maps and its buffer. What it is asked for
// and what it sends is described in bpf/record.h, which it shares.
#pragma once

#include "bpf/bpf.hpp"
#include "bpf/record.h"

#include <functional>

namespace uprobectl {

// Sums that the program keeps in the kernel, exact even where events were lost.
struct ProbeCounts {
  std::uint64_t entries = 0;
  std::uint64_t returns = 0;   // where calls are paired: those whose entry was seen
  std::uint64_t left_out = 0;  // hits that a condition or the least latency left out
  std::uint64_t unpaired = 0;  // returns whose entry was not seen
  std::uint64_t of_others = 0; // hits in processes that a filter passed over
};

struct ProcessCount {
  std::uint32_t probe = 0;
  std::uint32_t pid = 0; // thread group, initial pid namespace
  std::string comm;      // of the thread that came first
  std::uint64_t count = 0;
};

// How often one process came to a probe by one way.
struct StackCount {
  std::uint32_t probe = 0;
  std::uint32_t pid = 0;
  std::string comm; // of the thread that came first
  // Run-time addresses: where the probe is, then return addresses, those behind tags and signatures
  // of pointers. As frame pointers tell them, but for the first caller. Empty where there was no
  // room for the stack.
  std::vector<std::uint64_t> frames;
  std::uint64_t count = 0;
};

// Numbers of one probe that were measured.
struct Histogram {
  std::uint64_t count = 0;
  std::uint64_t negative = 0; // of them, which are in no bucket
  std::uint64_t total = 0;    // sum, modulo 2^64
  std::int64_t min = 0;       // where count > 0
  std::int64_t max = 0;
  std::vector<std::uint64_t> buckets; // HISTOGRAM_BUCKETS, or none where nothing was measured
};

// Addresses as the kernel has walked them: without tags, and with the first caller, which frame
// pointers do not tell at a function's entry. Up to the first that is 0. `caller`: 0 where it is
// not known.
std::vector<std::uint64_t> walked_frames(std::span<const std::uint64_t> addresses,
                                         std::uint64_t caller);

// By what a program is run, which it must know.
enum class ProbeRole {
  entry,
  on_return,      // a return probe of the kernel's
  exit,           // a plain probe on an instruction that may leave the function
  entry_and_exit, // one on the first instruction of a function that may leave it, too
};

// A place where a probe's function can be left, and the number of the rule that says when.
struct ProbeExit {
  std::uint32_t probe = 0;
  std::uint32_t rule = 0;
  bool at_entry = false; // it is the function's first instruction
  auto operator<=>(const ProbeExit&) const = default;
};

// Of this kernel; nothing where it does not describe its types or lets no program read its memory.
// Takes some 10 ms.
std::optional<return_instance_layout> find_return_instances();
std::optional<nesting_layout> find_nesting();

// Closing it frees all it has in the kernel.
class BuiltinProgram {
public:
  struct Probe {
    std::uint32_t variant = 0; // of Settings::variants
    // If all probes have one, entry probes may share cookies, and with them perf events.
    std::optional<FileOffset> shared_place = {};
  };
  struct Settings {
    ProgramKind kind = ProgramKind::plain;
    RecordBuffer buffer = RecordBuffer::ring;
    // Cookies reach the program; else there is a copy of it for each, which costs as many loads.
    // Copies are plain programs.
    bool cookie = true;
    std::vector<Probe> probes = {};         // by number
    std::vector<exit_rule> exit_rules = {}; // by number; the first is that of return instructions
    std::vector<ProbeExit> exits = {};      // all there are, each once
    // What is asked; for each of these the program is loaded once. Their records have one size.
    std::vector<builtin_settings> variants = {};
    int processes = -1; // a map of process ids for FILTER_BY_PROCESS, borrowed
    int cgroup = -1;    // an open folder of cgroup2 for FILTER_BY_CGROUP, borrowed while loading
    std::uint32_t buffer_bytes = 8U << 20; // a power of two, multiple of the page size; of perf
                                           // buffers it is shared by the CPUs
  };

  // What sends a record with the six integer arguments or the return value of each hit.
  static builtin_settings plain_settings();

  // not_permitted names the missing capability or sysctl; unsupported what the kernel lacks; the
  // last lines of the verifier's log are in the message where it refused.
  static Result<BuiltinProgram> load(const Settings& settings);

  BuiltinProgram(BuiltinProgram&&) noexcept;
  BuiltinProgram& operator=(BuiltinProgram&&) noexcept;
  ~BuiltinProgram();

  // What is to run at a probe, and the cookie to attach it with, if cookies there are.
  // exit_rule: of exits.
  LoadedProgram program(std::uint32_t probe, ProbeRole role, std::uint32_t exit_rule = 0) const;
  std::uint64_t cookie(std::uint32_t probe, ProbeRole role, std::uint32_t exit_rule = 0) const;

  // Hits are counted and recorded only while armed; after load it is not.
  Result<void> arm(bool on);

  int poll_fd() const; // readable when the program asks to be drained
  // Hands out the records that wait, in order (of perf buffers: those that wait now among
  // themselves), until visit returns false, and no more of them than a hot probe can fill in
  // meanwhile. True if some may be left.
  bool drain(const std::function<bool(Bytes)>& visit);

  std::uint64_t lost(lost_reason reason) const; // since load
  // Calls that were entered and have not returned.
  std::uint64_t open_calls() const;
  // Makes room: forgets the open calls of processes that have ended. Returns how many these were.
  std::uint64_t forget_calls(const std::function<bool(std::uint32_t pid)>& has_ended);
  std::vector<ProbeCounts> counts() const;          // by number
  std::vector<ProcessCount> process_counts() const; // with COUNT_BY_PROCESS
  std::vector<StackCount> stack_counts() const;     // with COUNT_STACKS
  Histogram histogram(std::uint32_t probe) const;   // with MEASURE_…

private:
  struct State;
  explicit BuiltinProgram(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

} // namespace uprobectl
