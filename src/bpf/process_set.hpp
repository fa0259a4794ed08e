// SPDX-License-Identifier: Apache-2.0
// A set of processes that is maintained in the kernel, so that a new process is a member before its
// first instruction. Requires Linux 5.8 with BTF.
#pragma once

#include "uprobectl/util.hpp"

#include <functional>
#include <span>
#include <string>
#include <sys/types.h>

namespace uprobectl::bpf {

// Members are processes whose comm is, or becomes, one of the names; processes that were added; and
// children of members: with `follow` all of them, otherwise those that keep the name. A process is
// removed when its last thread ends, and, without `follow`, when its name changes.
//
// Pids are those of processes, not threads, in the pid namespace of uprobectl. At most 16384.
// Processes that are not visible there are never members.
class ProcessSet {
public:
  struct Settings {
    std::vector<std::string> names = {}; // ignores those longer than a comm, 15 bytes
    bool follow = false;
  };

  // How long an added process is a member: until it exits, or until withdraw(). The second is for
  // processes selected by a name that the kernel does not track, such as argv[0].
  enum class Membership { until_exit, while_named };

  // The comm of a process's main thread has changed, by a rename or execve.
  struct Renamed {
    pid_t pid = 0;
    std::string comm;
    bool is_member = false;
  };

  // Whether the kernel supports start(). Permissions are not checked.
  static bool is_supported();

  // Tracks all processes that start or change from now on. Running ones must be added afterwards.
  // Fails with unsupported or not_permitted.
  static Result<ProcessSet> start(const Settings& settings);

  ProcessSet(ProcessSet&&) noexcept;
  ProcessSet& operator=(ProcessSet&&) noexcept;
  ~ProcessSet();

  Result<void> add(pid_t pid,
                   Membership membership = Membership::until_exit); // not_found if it has ended
  void withdraw(pid_t pid); // if added with while_named; it may still be a member by its comm
  std::vector<pid_t> members() const; // ascending
  bool contains(pid_t pid) const;

  // The map from pid to a nonzero number (u32, u32), for use in programs. A map that is replaced by
  // it must have the same type (BPF_MAP_TYPE_HASH) and max_entries.
  int map_fd() const;
  static constexpr std::uint32_t max_members = 16384;

  // Readable when there are renames. The arguments of a process are set shortly after execve, on
  // Android later, so a search for a name in them must be repeated.
  int poll_fd() const;
  void drain(const std::function<void(const Renamed&)>& visit);
  // The number of renames lost because the buffer was full. If it grows, examine all processes.
  std::uint64_t missed() const;
  // Whether a process that had to be a member is none, because there were too many.
  bool was_full() const;

private:
  struct State;
  explicit ProcessSet(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Creates a map as ProcessSet::map_fd() has it, of processes that do not change. It has room for
// one more.
Result<UniqueFd> create_pid_map(std::span<const pid_t> pids);

} // namespace uprobectl::bpf
