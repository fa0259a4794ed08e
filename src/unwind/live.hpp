// Stacks of processes that run: what they map is read while they live and remembered beyond their
// end; the files behind it are opened by the way that leads to the mapped ones.
//
//   auto watch = MappingWatch::start(pids); // a warning where that fails, no more
//   LiveProcesses live(where);
//   for (pid_t pid : pids) live.look_at(pid);
//   …                                       // whenever samples have come, or watch->fd() is
//   readable: watch->drain([&](const MappingEvent& event) { live.add(event); }); const Stack stack
//   = live.unwind(sample);
#pragma once

#include "process/mapping_watch.hpp"
#include "uprobectl/art.hpp"
#include "uprobectl/unwind.hpp"

#include <sys/types.h>

namespace uprobectl::stacks {

// What a probe has kept of a thread, at one instant.
struct Sample {
  pid_t pid = 0;             // thread group, initial pid namespace
  std::uint64_t time_ns = 0; // CLOCK_MONOTONIC; 0: now
  Registers registers;
  std::uint64_t stack_address = 0;
  Bytes stack; // from there on upwards; may be empty
  bool at_function_entry = false;
  // Of functions whose return addresses return probes have replaced, where that is known.
  std::span<const KnownReturn> known_returns = {};
};

// Where an address lies, known without the mappings of its process: that of a probe's hit.
struct KnownPlace {
  std::uint64_t pc = 0;
  std::shared_ptr<const MappedFile> file;
  std::string path; // of the file, for people
  FileOffset offset;
};

// The processes whose stacks are asked for. Serves one thread.
class LiveProcesses {
public:
  // Whether a process has begun another program, or its pid is another's, by what the kernel has
  // told and add() has not been given yet: what /proc says is not of the program that is asked for
  // then. Asked before /proc is read, and after; it may drain a MappingWatch, but not call add().
  using Succession = std::function<bool(pid_t)>;

  explicit LiveProcesses(elf::DebugSearch where, art::DexSearch dex = {},
                         Succession is_succeeded = {});
  LiveProcesses(const LiveProcesses&) = delete;
  LiveProcesses& operator=(const LiveProcesses&) = delete;
  ~LiveProcesses();

  // Reads what the process maps now, if it still lives.
  void look_at(pid_t pid);
  // The same of all processes that are remembered and live: after records of a MappingWatch were
  // lost, when another library may lie where one is known to.
  void look_again();
  // What a MappingWatch tells, of whatever process. Of processes that have ended the last 512 are
  // remembered.
  void add(const MappingEvent& event);
  // What processes map is read when they are first met, and again where an address lies in none of
  // their mappings. The places in the answer are valid as long as this.
  Stack unwind(const Sample& sample);
  // Frames whose addresses are known already, the innermost first: the kernel's walk along frame
  // pointers. All but the first are return addresses. time_ns as of a Sample; 0: now.
  // `known` places those in its module if nothing is known of the process's mappings.
  Stack frames(pid_t pid, std::uint64_t time_ns, std::span<const std::uint64_t> addresses,
               const KnownPlace* known = nullptr);

  // Writes the sample and the files that its frames lie in to a new folder, which
  // read_saved_stack() takes. A file that an earlier call has written is linked to, not copied; of
  // files beyond 512 MiB, and of what goes beyond 1 GiB in a folder, the frames keep only their
  // addresses.
  Result<void> save(const Sample& sample, const std::string& folder);

private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace uprobectl::stacks
