// A set of processes that the kernel itself keeps up to date, so that one that begins later is in
// it before its first instruction. Needs Linux 5.8 with types (BTF) of its own.
#pragma once

#include "uprobectl/util.hpp"

#include <functional>
#include <string>
#include <sys/types.h>

namespace uprobectl {

// Members come from three sides: a process whose comm is, or becomes, one of the names; what is
// added; and children: with `follow` all of a member's, else those that still go by the name. A
// process leaves when its last thread ends, and, without `follow`, when its name becomes another.
//
// Pids are those of the initial pid namespace, and of processes, not of threads. There is room for
// 16384 of them.
class ProcessSet {
public:
  struct Settings {
    std::vector<std::string> names = {}; // at most 32; those longer than 15 bytes are no comm
    bool follow = false;
  };

  // How long one that was added stays: given by its pid, or by a name that the kernel does not see
  // (argv[0]), which a rename may end: user space is to look again, and to withdraw it.
  enum class Stay { to_its_end, while_named };

  // A process's main thread, and so the process, goes by another comm: renamed or executed.
  struct Renamed {
    pid_t pid = 0;
    std::string comm;
    bool is_member = false;
  };

  // Whether start() has what it needs of the kernel, permission aside.
  static bool possible();

  // From here on nothing is missed. Processes that run already are to be added: look for them after
  // this. unsupported where the kernel lacks what it needs, not_permitted, out_of_range.
  static Result<ProcessSet> start(const Settings& settings);

  ProcessSet(ProcessSet&&) noexcept;
  ProcessSet& operator=(ProcessSet&&) noexcept;
  ~ProcessSet();

  Result<void> add(pid_t pid, Stay stay = Stay::to_its_end); // not_found if it has ended
  void withdraw(pid_t pid); // what was added while_named; it may still be a member by its comm
  std::vector<pid_t> members() const; // ascending
  bool contains(pid_t pid) const;

  // The map from pid to a number that is not 0 (u32, u32), for a program to look into: where its
  // own map is to be this one it needs the same type (BPF_MAP_TYPE_HASH) and max_entries.
  int map_fd() const;
  static constexpr std::uint32_t most_members = 16384;

  // Readable when there are renames. At an execve the process has no arguments yet (they follow
  // within moments), on Android it gets them later: who looks for a name in them looks again.
  int poll_fd() const;
  void drain(const std::function<void(const Renamed&)>& visit);
  // How many renames found the buffer full since the start: when it grows, look at all processes.
  std::uint64_t missed() const;

private:
  struct State;
  explicit ProcessSet(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

} // namespace uprobectl
