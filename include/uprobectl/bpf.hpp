// BPF: what this kernel can do, and the built-in program loaded into it. Everything libbpf knows
// stays behind this header.
#pragma once

#include "uprobectl/base.hpp"

#include <functional>

namespace uprobectl {

// Found out by trying, never from the version: vendors backport. Each with the commit it stands for
// in src/bpf/features.cpp.
struct KernelFeatures {
  bool uprobe_multi = false;     // BPF_TRACE_UPROBE_MULTI links
  bool multi_pid_filter = false; // ... whose pid means the process, not one thread
  bool uprobe_session = false;   // BPF_TRACE_UPROBE_SESSION links
  bool perf_uprobe = false;      // the "uprobe" perf event source
  bool perf_permitted = false;   // ... and this user may open its events
  bool perf_link = false;        // BPF links on perf events, with a cookie
  bool ring_buffer = false;      // BPF_MAP_TYPE_RINGBUF
};
// not_permitted where this user may not even ask.
Result<KernelFeatures> probe_kernel_features();

// The way a program will be attached. It must be known before the program is loaded: the kernel
// freezes it into the program, and Linux 6.12 and 6.18 oops when a program loaded for a multi link
// is run from a perf event.
enum class ProgramKind {
  plain,   // perf events, tracefs
  multi,   // uprobe_multi links
  session, // uprobe_multi links that call it at entry and at return
};
std::string_view to_string(ProgramKind kind); // "uprobe_multi links"

// A program in the kernel, borrowed.
struct LoadedProgram {
  int fd = -1;
  ProgramKind kind = ProgramKind::plain;
  // By this process, so that its kind is known beyond doubt. The kind of a pinned program is what
  // the kernel's answers tell of it.
  bool loaded_by_us = true;
};

// Sums that the program keeps in the kernel, exact even where events were lost.
struct ProbeCounts {
  std::uint64_t entries = 0;
  std::uint64_t returns = 0;
};

// The built-in program, its maps and its ring buffer. Closing it frees all of them.
class BuiltinProgram {
public:
  struct Settings {
    ProgramKind kind = ProgramKind::plain;
    std::uint32_t probes = 1;            // cookies are 0 … probes-1
    std::uint32_t ring_bytes = 8U << 20; // a power of two, multiple of the page size
  };

  // not_permitted names the missing capability or sysctl; unsupported what the kernel lacks; the
  // last lines of the verifier's log are in the message where it refused.
  static Result<BuiltinProgram> load(const Settings& settings);

  BuiltinProgram(BuiltinProgram&&) noexcept;
  BuiltinProgram& operator=(BuiltinProgram&&) noexcept;
  ~BuiltinProgram();

  // What is to run at a probe, whose cookie is its number.
  LoadedProgram program(std::uint32_t probe, bool on_return) const;

  // Hits are counted and recorded only while armed; after load it is not.
  Result<void> arm(bool on);

  int poll_fd() const; // readable when the program asks to be drained
  // Hands out the records that wait, in order, until visit returns false, and no more of them than
  // a hot probe can fill in meanwhile. True if some may be left.
  bool drain(const std::function<bool(Bytes)>& visit);

  std::uint64_t lost() const;              // records that found the ring buffer full, since load
  std::vector<ProbeCounts> counts() const; // by cookie

private:
  struct State;
  explicit BuiltinProgram(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

} // namespace uprobectl
