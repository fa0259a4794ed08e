// Processes by their whole argv[0], as Android names them, those that begin later included.
#pragma once

#include "session/process_watch.hpp"

namespace uprobectl {

// Whether it is the process's argv[0], up to its end.
bool has_process_name(pid_t pid, std::string_view name);

class TaskProcesses {
public:
  using Time = std::chrono::steady_clock::time_point;

  // The kernel tells of new ones at once where it can; else they are found within half a second.
  explicit TaskProcesses(std::vector<std::string> names);

  // Those that have begun, or taken such a name, since: by the name's number. At first, all.
  struct Found {
    std::size_t name = 0;
    pid_t pid = 0;
  };
  std::vector<Found> look(Time now);
  // Those found that have ended since it was asked last.
  std::vector<pid_t> take_ended();
  Time next_look() const;
  // Readable when a process takes another name.
  void add_to(std::vector<pollfd>& polled) const;

private:
  struct Known {
    std::size_t name = 0;
    ProcessHandle process;
  };
  void judge(pid_t pid, std::span<const std::size_t> names, std::vector<Found>& found);
  void forget_ended();

  NameWatch names_;
  std::optional<ProcessSet> renames_;
  std::multimap<pid_t, Known> known_;
  std::vector<pid_t> ended_;
  Time next_scan_;
};

} // namespace uprobectl
