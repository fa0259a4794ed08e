#include "session/process_watch.hpp"

#include "uprobectl/process.hpp"

#include <algorithm>
#include <cerrno>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

namespace uprobectl {

namespace {

bool is_readable(int fd) {
  pollfd polled{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&polled, 1, 0) > 0;
}

// What has ended meanwhile needs no place in the set, and for what is too much there is none.
void add_if_running(ProcessSet& set, pid_t pid, ProcessSet::Stay stay) {
  static_cast<void>(set.add(pid, stay).has_value());
}

} // namespace

Result<ProcessWatch> ProcessWatch::start(std::span<const pid_t> pids) {
  ProcessWatch watch;
  for (const pid_t pid : pids) {
    // Linux 5.3; the C library of Debian 12 wraps it, older ones and Android's do not.
    UniqueFd fd{static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))};
    // A thread's id is refused with EINVAL, by newer kernels with ENOENT.
    if (!fd && (errno == ESRCH || errno == EINVAL || errno == ENOENT)) {
      if (command_name(pid))
        return fail(
            Error{ErrorKind::not_found, std::to_string(pid) + " is a thread, no process"}.hint(
                "-p takes the process: Tgid in /proc/" + std::to_string(pid) + "/status"));
      return fail(ErrorKind::not_found, "no process with pid " + std::to_string(pid));
    }
    if (!fd) return fail(system_error(errno, "cannot watch process " + std::to_string(pid)));
    std::string text = "process " + std::to_string(pid);
    if (const auto name = command_name(pid)) text += " (" + *name + ")";
    watch.running_.push_back({std::move(text), std::move(fd)});
    watch.watches_ = true;
  }
  return watch;
}

bool ProcessWatch::all_gone() {
  std::erase_if(running_, [this](const Running& process) {
    if (!is_readable(process.fd.get())) return false;
    ended_.push_back(process.name);
    return true;
  });
  return watches_ && running_.empty();
}

void ProcessWatch::add_to(std::vector<pollfd>& polled) const {
  for (const Running& process : running_)
    polled.push_back({.fd = process.fd.get(), .events = POLLIN, .revents = 0});
}

void add_family(ProcessSet& set, pid_t pid) {
  // A child of one that is not yet a member may be missed, and is seen the next time.
  for (bool found = true; found;) {
    found = false;
    for (const pid_t child : descendants_of(pid)) {
      if (set.contains(child)) continue;
      if (set.add(child)) found = true;
    }
  }
}

void NamedProcesses::scan(ProcessSet& set) {
  for (const std::string& name : names_)
    for (const pid_t pid : processes_named(name)) {
      add_if_running(set, pid, ProcessSet::Stay::while_named);
      if (follow_) add_family(set, pid);
    }
}

void NamedProcesses::judge(ProcessSet& set, pid_t pid) const {
  const bool named =
      std::ranges::any_of(names_, [&](const std::string& name) { return is_named(pid, name); });
  if (named)
    add_if_running(set, pid, ProcessSet::Stay::while_named);
  else if (!follow_)
    set.withdraw(pid);
}

void NamedProcesses::look(ProcessSet& set, Time now) {
  set.drain([&](const ProcessSet::Renamed& renamed) {
    judge(set, renamed.pid);
    for (const auto later : until_arguments) again_.emplace(now + later, renamed.pid);
  });
  const auto later = again_.upper_bound(now);
  for (auto at = again_.begin(); at != later; ++at) judge(set, at->second);
  again_.erase(again_.begin(), later);
  if (const std::uint64_t missed = set.missed(); missed != missed_) {
    missed_ = missed;
    scan(set);
  }
}

std::optional<NamedProcesses::Time> NamedProcesses::next_look() const {
  return again_.empty() ? std::nullopt : std::optional(again_.begin()->first);
}

} // namespace uprobectl
