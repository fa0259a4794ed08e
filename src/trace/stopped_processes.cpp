// SPDX-License-Identifier: Apache-2.0
#include "trace/stopped_processes.hpp"

#include "output/format.hpp"
#include "process/proc.hpp"

#include <fmt/format.h>

namespace uprobectl::trace {

namespace {

// Other threads that are hit at the same time send their events within this time.
constexpr std::uint64_t same_stop_ns = 100'000'000;

} // namespace

// The state of the whole process is that of its main thread, which may have ended.
bool is_stopped(pid_t pid) {
  const auto stat = process::try_read_pseudo_file(process::live_path(pid, "stat"));
  const auto state = stat ? process::parse_state(*stat) : std::nullopt;
  return state == 'T' || state == 't'; // 't': a debugger has it
}

void StoppedProcesses::take(const events::Event& event) {
  const auto pid = static_cast<pid_t>(event.pid);
  const auto [known, is_new] = stops_.try_emplace(pid);
  Stop& stop = known->second;
  const bool was_continued = (stop.seen_stopped_ns && event.time_ns > *stop.seen_stopped_ns) ||
                             event.time_ns > stop.hit_ns + same_stop_ns;
  if (!is_new && !was_continued) return;
  stop = {.hit_ns = event.time_ns};
  output_.status_even_quiet(
      fmt::format("{} is stopped at a hit of {} by thread {}: look at it with gdb -p {}, continue "
                  "it with kill -CONT {}",
                  process::describe_process(pid), display_name(*event.point), event.tid, pid, pid));
}

void StoppedProcesses::advance(std::uint64_t now_ns) {
  for (auto& [pid, stop] : stops_)
    if (!stop.seen_stopped_ns && is_stopped(pid)) stop.seen_stopped_ns = now_ns;
}

void StoppedProcesses::finish() const {
  for (const auto& [pid, stop] : stops_)
    if (is_stopped(pid))
      output_.notice(fmt::format("{} stays stopped: continue it with kill -CONT {}",
                                 process::describe_process(pid), pid));
}

} // namespace uprobectl::trace
