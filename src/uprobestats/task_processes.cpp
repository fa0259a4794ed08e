#include "uprobestats/task_processes.hpp"

#include "process/pseudo_file.hpp"
#include "session/process_watch.hpp"
#include "uprobectl/process.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

namespace uprobectl {

namespace {

// Children keep their parent's arguments, and no rename tells of them.
constexpr std::chrono::milliseconds between_scans{500};

// By its pidfd, or by its number where there is none: the kernel may have none, or none be left.
bool has_ended(pid_t pid, const UniqueFd& running) {
  if (!running) return ::kill(pid, 0) != 0 && errno == ESRCH;
  pollfd polled{.fd = running.get(), .events = POLLIN, .revents = 0};
  return ::poll(&polled, 1, 0) > 0;
}

} // namespace

bool has_process_name(pid_t pid, std::string_view name) {
  const auto arguments = pseudo_file_text(fmt::format("/proc/{}/cmdline", pid));
  return arguments && std::string_view(*arguments).substr(0, arguments->find('\0')) == name;
}

TaskProcesses::TaskProcesses(std::vector<std::string> names) : names_(std::move(names)) {
  if (!in_initial_pid_namespace()) return; // renames are told by the kernel's own pids
  if (auto renames = ProcessSet::start({})) renames_ = std::move(*renames);
}

void TaskProcesses::forget_ended() {
  std::erase_if(known_, [&](const auto& each) {
    const bool ended = has_ended(each.first, each.second.running);
    if (ended) ended_.push_back(each.first);
    return ended;
  });
}

std::vector<pid_t> TaskProcesses::take_ended() { return std::exchange(ended_, {}); }

void TaskProcesses::judge(pid_t pid, std::vector<Found>& found) {
  for (std::size_t name = 0; name < names_.size(); ++name) {
    const auto [begin, end] = known_.equal_range(pid);
    if (std::any_of(begin, end, [&](const auto& each) { return each.second.name == name; }))
      continue;
    if (!has_process_name(pid, names_[name])) continue;
    UniqueFd running{static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))};
    if (!running && errno == ESRCH) continue; // it has ended
    known_.emplace(pid, Known{name, std::move(running)});
    found.push_back({name, pid});
  }
}

std::vector<TaskProcesses::Found> TaskProcesses::look(Time now) {
  forget_ended();
  std::vector<Found> found;
  if (renames_)
    renames_->drain([&](const ProcessSet::Renamed& renamed) {
      judge(renamed.pid, found);
      for (const auto later : until_arguments) again_.emplace(now + later, renamed.pid);
    });
  const auto later = again_.upper_bound(now);
  for (auto at = again_.begin(); at != later; ++at) judge(at->second, found);
  again_.erase(again_.begin(), later);
  if (now < next_scan_) return found;
  next_scan_ = now + between_scans;
  for (const pid_t pid : all_processes()) judge(pid, found);
  return found;
}

TaskProcesses::Time TaskProcesses::next_look() const {
  return again_.empty() ? next_scan_ : std::min(next_scan_, again_.begin()->first);
}

void TaskProcesses::add_to(std::vector<pollfd>& polled) const {
  if (renames_) polled.push_back({.fd = renames_->poll_fd(), .events = POLLIN, .revents = 0});
}

} // namespace uprobectl
