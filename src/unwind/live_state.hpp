// What LiveProcesses remembers.
#pragma once

#include "unwind/live.hpp"
#include "unwind/live_process.hpp"
#include "unwind/saved_writer.hpp"

#include <deque>

namespace uprobectl::stacks {

std::uint64_t now_ns(); // CLOCK_MONOTONIC

struct LiveProcesses::State {
  State(elf::DebugSearch where, art::DexSearch dex, Succession succession)
      : is_succeeded(std::move(succession)), cache(std::move(where), std::move(dex)) {}

  LiveProcess& begin(pid_t pid, std::uint64_t since);
  LiveProcess& look_at(pid_t pid);
  LiveProcess& at(pid_t pid, std::uint64_t time);
  LiveProcess& last_at(LiveProcess& process, std::uint64_t time);
  LiveProcess* last_of(pid_t pid);
  LiveProcess& replace(pid_t pid, std::uint64_t time);
  void fork(pid_t pid, pid_t parent, std::uint64_t time);
  void end(pid_t pid);
  void sweep_now_and_then();
  bool read_again(LiveProcess& process);
  Stack unwind(const Sample& sample, LiveProcess& process);
  Result<void> save(const Sample& sample, const Stack& stack, LiveProcess& process,
                    SavedFolder& folder);
  Result<void> save_files(const Stack& stack, SavedFolder& folder, std::vector<Mapping>& mappings);
  Stack frames(LiveProcess& process, std::span<const std::uint64_t> addresses,
               const KnownPlace* known);

  Succession is_succeeded;
  ModuleCache cache;
  // Of each pid one for every program that it has run, by time.
  std::unordered_map<pid_t, std::vector<std::unique_ptr<LiveProcess>>> processes;
  std::deque<pid_t> ended; // the oldest first; more than once if the pid has been used again
  std::size_t begun = 0;   // programs, since the last sweep
  std::map<FileIdentity, std::string> saved_files; // where save() has copied them to
};

} // namespace uprobectl::stacks
