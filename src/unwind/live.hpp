// SPDX-License-Identifier: Apache-2.0
// Stacks of running processes. Their mappings are read while they live and kept beyond their end;
// the mapped files are opened through paths that lead to the very files that are mapped.
//
//   auto watch = MappingWatch::start(pids); // a failure is only a warning
//   LiveProcesses live(where);
//   for (pid_t pid : pids) live.look_at(pid);
//   // For each sample, and when watch->fd() is readable:
//   watch->drain([&](const MappingEvent& event) { live.add(event); });
//   const Stack stack = live.unwind(sample);
#pragma once

#include "process/mapping_watch.hpp"
#include "uprobectl/art.hpp"
#include "uprobectl/unwind.hpp"

#include <sys/types.h>

namespace uprobectl::unwind {

// The state of a thread at a probe hit.
struct Sample {
  pid_t pid = 0;             // thread group, initial pid namespace
  std::uint64_t time_ns = 0; // CLOCK_MONOTONIC; 0: now
  Registers registers;
  std::uint64_t stack_address = 0;
  Bytes stack; // from stack_address upwards; may be empty
  bool at_function_entry = false;
  // Of functions whose return addresses were replaced by return probes, as far as known.
  std::span<const KnownReturn> known_returns = {};
};

// A place that is known without the mappings of the process: that of the probe.
struct KnownPlace {
  std::uint64_t pc = 0;
  std::shared_ptr<const MappedFile> file;
  std::string path; // of the file, for display
  FileOffset offset;
};

// The processes whose stacks are unwound. Not thread-safe.
class LiveProcesses {
public:
  // Whether kernel records that add() has not been given yet say that the process has executed
  // another program, or that its pid was reused: /proc then describes the new program. Called
  // before and after /proc is read; may drain a MappingWatch, but must not call add().
  using Succession = std::function<bool(pid_t)>;

  explicit LiveProcesses(elf::DebugSearch where, art::DexSearch dex = {},
                         Succession is_succeeded = {});
  LiveProcesses(const LiveProcesses&) = delete;
  LiveProcesses& operator=(const LiveProcesses&) = delete;
  ~LiveProcesses();

  // Reads the mappings of the process, if it is still alive.
  void look_at(pid_t pid);
  // The same for all remembered processes that are alive. Needed after a MappingWatch has lost
  // records.
  void look_again();
  // Takes an event of a MappingWatch, of any process. The last 512 processes that have ended are
  // remembered.
  void add(const MappingEvent& event);
  // Reads the mappings of a process at its first sample, and again if an address is in none of
  // them. The places in the result are valid during the lifetime of this object.
  Stack unwind(const Sample& sample);
  // The frames of known addresses, the innermost first: the kernel's walk along frame pointers. All
  // but the first are return addresses. time_ns: as in Sample. `known` is used to place addresses
  // of its module if the mappings of the process are not known.
  Stack frames(pid_t pid, std::uint64_t time_ns, std::span<const std::uint64_t> addresses,
               const KnownPlace* known = nullptr);

  // Writes the sample and the files of its frames to a new folder, for read_saved_stack(). A file
  // that an earlier call has written is hard-linked, not copied. Files above 512 MiB, and those
  // above 1 GiB per folder, are omitted.
  Result<void> save(const Sample& sample, const std::string& folder);

private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace uprobectl::unwind
