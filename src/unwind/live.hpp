// SPDX-License-Identifier: Apache-2.0
// Unwinds stacks of running processes. The mappings of a process are read while it runs and kept
// after it has ended. A mapped file is opened only by a path that leads to this very file.
//
//   auto watch = MappingWatch::start(pids); // a failure is only a warning
//   LiveProcesses live(where);
//   for (pid_t pid : pids) live.read_process(pid);
//   // For each sample, and when watch->fd() is readable:
//   watch->drain([&](const MappingEvent& event) { live.add(event); });
//   const Stack stack = live.unwind(sample);
#pragma once

#include "process/mapping_watch.hpp"
#include "unwind/raw_stack.hpp"
#include "uprobectl/art.hpp"
#include "uprobectl/unwind.hpp"
#include "util/workstation.hpp"

#include <sys/types.h>

namespace uprobectl::unwind {

// The state of a thread at a probe hit.
struct Sample {
  pid_t pid = 0;             // thread group, pid namespace of uprobectl
  pid_t tid = 0;             // for collect() only
  std::uint64_t time_ns = 0; // CLOCK_MONOTONIC; 0: the present
  Registers registers;
  std::uint64_t stack_address = 0;
  Bytes stack; // from stack_address upwards; may be empty
  bool at_function_entry = false;
  // The known original return addresses that return probes have replaced.
  std::span<const KnownReturn> known_returns = {};
};

// The probed instruction, which is known without the mappings of the process.
struct ProbedInstruction {
  std::uint64_t pc = 0;
  std::shared_ptr<const MappedFile> file;
  std::string path; // of the file, for display
  FileOffset offset;
};

// Keeps the mappings of processes and unwinds their stacks. Not thread-safe.
class LiveProcesses {
public:
  // Returns whether the process has executed another program, or its pid was reused, according to
  // kernel records that were not passed to add() yet: /proc then describes the new program. Called
  // before and after /proc is read. It may drain a MappingWatch, but must not call add().
  using NewProgramCheck = std::function<bool(pid_t)>;

  // Returns the executable mappings of the process that the kernel has recorded so far and that
  // were not passed to add() yet, so they are newer than the stacks up to now. Called after /proc
  // is read. It may drain a MappingWatch, but must not call add(). Without it, mappings that were
  // replaced between two readings of /proc are not used at all.
  using LaterMappings = std::function<std::vector<process::Mapping>(pid_t)>;

  explicit LiveProcesses(elf::DebugSearch where, art::DexSearch dex = {},
                         NewProgramCheck has_new_program = {}, LaterMappings find_later = {});
  LiveProcesses(const LiveProcesses&) = delete;
  LiveProcesses& operator=(const LiveProcesses&) = delete;
  ~LiveProcesses();

  // Frames get source positions, and stacks the frames of inlined functions, if there is debug
  // information. To be called before the first stack.
  void use_source_lines();

  // Reads the mappings of the process if it is alive.
  void read_process(pid_t pid);
  // Reads the mappings of all known processes that are alive. Call this after a MappingWatch has
  // lost records.
  void reread_processes();
  // Applies an event of a MappingWatch, of any process. Keeps the last 512 ended processes.
  void add(const process::MappingEvent& event);
  // Closes files that no process maps, or that are too many (symbolize/open_files.hpp). To be
  // called often; does something at most once a second, or as soon as no descriptor is left.
  // Invalidates the code of all frames, except of those that their modules keep.
  void make_room();
  // For stacks without a time: those that come from now on are newer than the last readings.
  // Invalidates the code of all frames, as make_room().
  void forget_past();
  // Whether files could not be opened because no descriptor was left.
  bool has_lacked_descriptors() const;
  // See ModuleCache.
  void keep_unmapped_files();
  // See ModuleCache.
  std::uint64_t forgotten_files() const;
  // Unwinds the stack. Reads the mappings of a process at its first sample, and again if an address
  // is not in a mapping. The code of its frames is valid until make_room().
  Stack unwind(const Sample& sample);
  // Returns what another machine needs to unwind the stack, and gives to the sink what it needs
  // before. Does not unwind. The result borrows from the sample.
  RawStack collect(const Sample& sample, RawStackSink& sink);
  // Makes a stack of addresses that the kernel found by frame pointers, the innermost first; all
  // but the first are return addresses. time_ns: as in Sample; it may be before that of the last
  // stack, then what was mapped after it gives no code. If the mappings of the process are not
  // known, `known` gives the code of the addresses in its module.
  Stack make_stack(pid_t pid, std::uint64_t time_ns, std::span<const std::uint64_t> addresses,
                   const ProbedInstruction* known = nullptr);

  // Writes the sample and the files of its frames to a new folder, for read_saved_stack(). A file
  // that an earlier call has written is hard-linked, not copied. Omits files larger than 512 MiB,
  // and those that would make the folder larger than 1 GiB.
  Result<void> save(const Sample& sample, const std::string& folder, Workstation& workstation);

private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace uprobectl::unwind
