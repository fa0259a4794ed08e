// Watches processes: those of given pids until they end, and those of given names as they begin.
#pragma once

#include "uprobectl/bpf/process_set.hpp"
#include "uprobectl/session.hpp"

#include <array>
#include <chrono>
#include <map>
#include <poll.h>

namespace uprobectl {

// Tells when the last of some processes has ended.
class ProcessWatch {
public:
  // not_found names a process that is not there (any more).
  static Result<ProcessWatch> start(std::span<const pid_t> pids);
  bool all_gone(); // false for ever where no process is watched
  void add_to(std::vector<pollfd>& polled) const;
  // Those that all_gone() has seen to be gone since the last time: "process 4711 (app)".
  std::vector<std::string> take_ended() { return std::exchange(ended_, {}); }

private:
  struct Running {
    std::string name;
    UniqueFd fd; // pidfd_open(2)
  };
  bool watches_ = false;
  std::vector<Running> running_;
  std::vector<std::string> ended_;
};

// When a process that was renamed is looked at again: after an execve the arguments are there
// within microseconds; Android's zygote names its child, and then writes the same into the
// arguments, on a busy machine much later.
inline constexpr std::array until_arguments = {
    std::chrono::milliseconds(2), std::chrono::milliseconds(50), std::chrono::milliseconds(300)};

// Keeps a set of processes true to names that the kernel does not see: those in argv[0].
class NamedProcesses {
public:
  using Time = std::chrono::steady_clock::time_point;

  NamedProcesses(std::vector<std::string> names, bool follow)
      : names_(std::move(names)), follow_(follow) {}

  // Adds all that run now; the set has been started for the same names.
  void scan(ProcessSet& set);
  // Looks at those that were renamed since, and again a little later, three times.
  void look(ProcessSet& set, Time now);
  std::optional<Time> next_look() const; // nothing: when there are renames

private:
  void judge(ProcessSet& set, pid_t pid) const;

  std::vector<std::string> names_;
  bool follow_;
  std::uint64_t missed_ = 0;
  std::multimap<Time, pid_t> again_;
};

// Adds the descendants of a member, those that are made meanwhile included.
void add_family(ProcessSet& set, pid_t pid);

} // namespace uprobectl
