#include "trace/process_watch.hpp"

#include "uprobectl/process.hpp"

#include <algorithm>
#include <array>
#include <cerrno>

namespace uprobectl {

namespace {

// When a process that was renamed is looked at again: after an execve the arguments are there
// within microseconds; Android's zygote names its child, and then writes the same into the
// arguments, on a busy machine much later.
constexpr std::array argument_delays = {std::chrono::milliseconds(2), std::chrono::milliseconds(50),
                                        std::chrono::milliseconds(300)};

} // namespace

Result<ProcessWatch> ProcessWatch::start(std::span<const pid_t> pids) {
  ProcessWatch watch;
  for (const pid_t pid : pids) {
    ProcessHandle process(pid);
    const int error = process.open_error();
    // A thread's id is refused with EINVAL, by newer kernels with ENOENT.
    if (error == ESRCH || error == EINVAL || error == ENOENT) {
      if (command_name(pid))
        return fail(
            Error{ErrorKind::not_found, std::to_string(pid) + " is a thread, no process"}.hint(
                "-p takes the process: Tgid in /proc/" + std::to_string(pid) + "/status"));
      return fail(ErrorKind::not_found, "no process with pid " + std::to_string(pid));
    }
    if (error != 0) return fail(system_error(error, "cannot watch process " + std::to_string(pid)));
    std::string text = "process " + std::to_string(pid);
    if (const auto name = command_name(pid)) text += " (" + *name + ")";
    watch.running_.push_back({std::move(text), std::move(process)});
    watch.watches_ = true;
  }
  return watch;
}

bool ProcessWatch::all_gone() {
  std::erase_if(running_, [this](const Running& running) {
    if (!running.process.has_ended()) return false;
    ended_.push_back(running.name);
    return true;
  });
  return watches_ && running_.empty();
}

void ProcessWatch::add_to(std::vector<pollfd>& polled) const {
  for (const Running& running : running_) running.process.add_to(polled);
}

std::vector<std::size_t> NameWatch::names_of(pid_t pid) const {
  std::vector<std::size_t> names;
  for (std::size_t i = 0; i < names_.size(); ++i)
    if (is_named_(pid, names_[i])) names.push_back(i);
  return names;
}

void NameWatch::judge(pid_t pid, const Visit& visit) const { visit(pid, names_of(pid)); }

void NameWatch::scan(const Visit& visit) const {
  for (const pid_t pid : all_processes())
    if (const auto names = names_of(pid); !names.empty()) visit(pid, names);
}

bool NameWatch::look(ProcessSet& set, Time now, const Visit& visit) {
  set.drain([&](const ProcessSet::Renamed& renamed) {
    judge(renamed.pid, visit);
    for (const auto delay : argument_delays) again_.emplace(now + delay, renamed.pid);
  });
  const auto later = again_.upper_bound(now);
  for (auto at = again_.begin(); at != later; ++at) judge(at->second, visit);
  again_.erase(again_.begin(), later);
  const std::uint64_t before = std::exchange(missed_, set.missed());
  return missed_ == before;
}

std::optional<NameWatch::Time> NameWatch::next_look() const {
  return again_.empty() ? std::nullopt : std::optional(again_.begin()->first);
}

} // namespace uprobectl
