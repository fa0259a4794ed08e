// Watches processes: those of given pids until they end, and those of given names as they begin.
#pragma once

#include "bpf/process_set.hpp"
#include "process/child.hpp"

#include <chrono>
#include <functional>
#include <map>
#include <span>

namespace uprobectl {

// Tells when the last of some processes has ended.
class ProcessWatch {
public:
  // not_found names a process that is not there (any more).
  static Result<ProcessWatch> start(std::span<const pid_t> pids);

  bool all_gone(); // always false if no process is watched
  void add_to(std::vector<pollfd>& polled) const;
  // Those that all_gone() has seen to be gone since the last time: "process 4711 (app)".
  std::vector<std::string> take_ended() { return std::exchange(ended_, {}); }

private:
  struct Running {
    std::string name;
    ProcessHandle process;
  };
  bool watches_ = false;
  std::vector<Running> running_;
  std::vector<std::string> ended_;
};

// Finds processes by names that the kernel does not know, those in argv[0], when they are renamed
// or execute a program. A process set tells of both.
class NameWatch {
public:
  using Time = std::chrono::steady_clock::time_point;
  using IsNamed = std::function<bool(pid_t pid, std::string_view name)>;
  // A process and which of the names it goes by, by their numbers.
  using Visit = std::function<void(pid_t pid, std::span<const std::size_t> names)>;

  NameWatch(std::vector<std::string> names, IsNamed is_named)
      : names_(std::move(names)), is_named_(std::move(is_named)) {}

  // Visits all processes that go by one of the names now.
  void scan(const Visit& visit) const;
  // Visits the processes that were renamed since the last time, and again a little later, three
  // times, also if they go by none of the names. False if renames were missed: scan() again.
  bool look(ProcessSet& set, Time now, const Visit& visit);
  std::optional<Time> next_look() const; // nothing: when there are renames

private:
  void judge(pid_t pid, const Visit& visit) const;
  std::vector<std::size_t> names_of(pid_t pid) const;

  std::vector<std::string> names_;
  IsNamed is_named_;
  std::uint64_t missed_ = 0;
  std::multimap<Time, pid_t> again_;
};

} // namespace uprobectl
