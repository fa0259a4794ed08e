// Keeps a set of processes true to names that the kernel does not see: those in argv[0].
#pragma once

#include "uprobectl/bpf/process_set.hpp"

#include <array>
#include <chrono>
#include <map>

namespace uprobectl {

// When a process that was renamed is looked at again: after an execve the arguments are there
// within microseconds; Android's zygote names its child, and then writes the same into the
// arguments, on a busy machine much later.
inline constexpr std::array until_arguments = {
    std::chrono::milliseconds(2), std::chrono::milliseconds(50), std::chrono::milliseconds(300)};

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
