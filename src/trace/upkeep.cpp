// SPDX-License-Identifier: Apache-2.0
#include "trace/upkeep.hpp"

#include "output/format.hpp"
#include "process/proc.hpp"
#include "util/clock.hpp"
#include "util/mapped_file.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <sys/utsname.h>

namespace uprobectl::trace {

void ProbeUpkeep::renew_filters() {
  const std::vector<ProcessHistory::Replaced> replaced_processes = history_.take_replaced();
  if (processes_.link_pids().empty()) return;
  std::vector<std::string> reasons;
  std::uint64_t since = clock_ns(CLOCK_MONOTONIC);
  for (const ProcessHistory::Replaced& replaced : replaced_processes) {
    if (std::ranges::find(processes_.link_pids(), replaced.pid) == processes_.link_pids().end())
      continue;
    since = std::min(since, replaced.time_ns);
    reasons.push_back(
        fmt::format("a thread of {} that is not its main thread has executed a program",
                    process::describe_process(replaced.pid)));
  }
  // Links to perf events end with the task's memory: Linux kernel/trace/trace_uprobe.c,
  // __uprobe_perf_filter(). Those of uprobe_multi stay.
  if (spec_.mechanism == probe::Mechanism::multi || spec_.mechanism == probe::Mechanism::session)
    warn_about_main_threads();
  else
    for (const std::string& process : processes_.find_lost_tasks()) {
      since = std::min(
          since, clock_ns(CLOCK_MONOTONIC) -
                     static_cast<std::uint64_t>(FilteredProcesses::task_check_interval.count()));
      reasons.push_back(
          fmt::format("the thread of {} by which the kernel selects it has ended", process));
    }
  if (reasons.empty()) return;
  const auto again = attach_again(processes_, spec_.mechanism, spec_.probes, signals_, attached_);
  if (!again) {
    output_.fail(Error(again.error())
                     .within(reasons.front() +
                             ": the probes were not attached again, no further calls are seen"));
    return;
  }
  if (!*again) {
    for (const std::string& reason : reasons)
      output_.warn(reason + ": calls after that are missing, the end came before the probes were "
                            "attached again");
    return;
  }
  const std::chrono::nanoseconds gap(clock_ns(CLOCK_MONOTONIC) - since);
  for (const std::string& reason : reasons)
    output_.warn(fmt::format("{}: the probes were attached again, calls of {} may be missing",
                             reason,
                             format_duration(std::chrono::ceil<std::chrono::milliseconds>(gap))));
}

// Links of uprobe_multi may miss further hits of a process whose main thread has ended, and cannot
// be made for another thread.
void ProbeUpkeep::warn_about_main_threads() {
  utsname kernel{};
  if (::uname(&kernel) != 0 || !links_lose_main_thread(kernel.release)) return;
  for (const std::string& process : processes_.find_lost_tasks())
    output_.warn_once(fmt::format("the main thread of {} has ended: on Linux {} '{}' may see no "
                                  "further calls of it, use --mechanism perf",
                                  process, kernel.release, to_string(spec_.mechanism)));
}

void ProbeUpkeep::follow_files(Time now) {
  if (!attached_.attachment) return;
  const std::vector<FileWatch::Changed> changes = files_.look(now);
  if (changes.empty()) return;
  const std::string after =
      "after " + format_duration(std::chrono::ceil<std::chrono::milliseconds>(now - spec_.start));
  std::vector<const MappedFile*> written;
  for (const auto& [file, change] : changes) {
    if (change == FileChange::written) {
      written.push_back(file);
      continue;
    }
    const std::string reason = fmt::format(
        "the file was replaced {}: processes that map the new one are not probed", after);
    output_.warn(file->path() + ": " + reason);
    if (!spec_.has_only_fixed_pids) code_.add_incomplete(*file, reason);
  }
  if (!written.empty()) detach_from(written, after, now);
}

void ProbeUpkeep::detach_from(std::span<const MappedFile* const> written, const std::string& after,
                              Time now) {
  const auto detached =
      detach_files(written, processes_, spec_.mechanism, spec_.probes, signals_, attached_);
  files_.release_writers();
  for (const MappedFile* const file : written) {
    const std::string reason =
        fmt::format("the file was opened for writing {}, so its probes were detached", after);
    output_.fail(FileWatch::detached_error(*file, reason));
    code_.add_incomplete(*file, reason);
  }
  code_.leave_out(attached_.left_out);
  if (!detached)
    output_.fail(Error(detached.error())
                     .within("the probes of other files were not attached again, no further calls "
                             "are seen"));
  else if (attached_.attachment)
    output_.warn(
        fmt::format("the probes of other files were attached again, calls of {} may be missing",
                    format_duration(std::chrono::ceil<std::chrono::milliseconds>(
                        std::chrono::steady_clock::now() - now))));
}

} // namespace uprobectl::trace
