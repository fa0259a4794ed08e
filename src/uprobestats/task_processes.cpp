#include "uprobestats/task_processes.hpp"

#include "process/pseudo_file.hpp"
#include "uprobectl/process.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <utility>

namespace uprobectl {

namespace {

// Children keep their parent's arguments, and no rename tells of them.
constexpr std::chrono::milliseconds between_scans{500};

} // namespace

bool has_process_name(pid_t pid, std::string_view name) {
  const auto arguments = pseudo_file_text(fmt::format("/proc/{}/cmdline", pid));
  return arguments && std::string_view(*arguments).substr(0, arguments->find('\0')) == name;
}

TaskProcesses::TaskProcesses(std::vector<std::string> names)
    : names_(std::move(names), has_process_name) {
  if (!in_initial_pid_namespace()) return; // renames are told by the kernel's own pids
  if (auto renames = ProcessSet::start({})) renames_ = std::move(*renames);
}

void TaskProcesses::forget_ended() {
  std::erase_if(known_, [&](const auto& each) {
    const bool ended = each.second.process.has_ended();
    if (ended) ended_.push_back(each.first);
    return ended;
  });
}

std::vector<pid_t> TaskProcesses::take_ended() { return std::exchange(ended_, {}); }

void TaskProcesses::judge(pid_t pid, std::span<const std::size_t> names,
                          std::vector<Found>& found) {
  for (const std::size_t name : names) {
    const auto [begin, end] = known_.equal_range(pid);
    if (std::any_of(begin, end, [&](const auto& each) { return each.second.name == name; }))
      continue;
    ProcessHandle process(pid);
    if (process.open_error() == ESRCH) continue; // it has ended
    known_.emplace(pid, Known{name, std::move(process)});
    found.push_back({name, pid});
  }
}

std::vector<TaskProcesses::Found> TaskProcesses::look(Time now) {
  forget_ended();
  std::vector<Found> found;
  const NameWatch::Visit visit = [&](pid_t pid, std::span<const std::size_t> names) {
    judge(pid, names, found);
  };
  const bool seen_all = !renames_ || names_.look(*renames_, now, visit);
  if (seen_all && now < next_scan_) return found;
  next_scan_ = now + between_scans;
  names_.scan(visit);
  return found;
}

TaskProcesses::Time TaskProcesses::next_look() const {
  return std::min(next_scan_, names_.next_look().value_or(next_scan_));
}

void TaskProcesses::add_to(std::vector<pollfd>& polled) const {
  if (renames_) polled.push_back({.fd = renames_->poll_fd(), .events = POLLIN, .revents = 0});
}

} // namespace uprobectl
