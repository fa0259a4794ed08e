#include "session/silence.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace uprobectl {

namespace {

// Those that have it as a library, and do not run it: all processes of a program are its own
// business.
std::size_t count_users(const ProbedBinary& binary, std::span<const pid_t> pids) {
  return static_cast<std::size_t>(std::ranges::count_if(
      pids, [&](pid_t pid) { return executable_of(pid) != binary.file->identity(); }));
}

} // namespace

void warn_if_everybody(std::span<const ProbePoint> points, std::span<const MappingSurvey> surveys,
                       const Reporter& reporter) {
  // By the path of the file: the probe that most processes may hit.
  std::map<std::string_view, std::size_t> most;
  for (std::size_t i = 0; i < points.size() && i < surveys.size(); ++i) {
    const auto [at, is_new] = most.try_emplace(points[i].binary->real_path, i);
    if (!is_new && surveys[i].executable.size() > surveys[at->second].executable.size())
      at->second = i;
  }
  for (const auto& [path, i] : most) {
    if (surveys[i].executable.size() < many_processes) continue;
    const ProbedBinary& binary = *points[i].binary;
    const std::size_t users = count_users(binary, surveys[i].executable);
    if (users >= many_processes)
      reporter.gathered_warning(
          "mapped by many",
          fmt::format("{} is mapped by {} processes: every call in any of them stops at the "
                      "probes; restrict with -p, --app, --uid or --cgroup",
                      file_name_of(binary.path.entry.value_or(binary.real_path)), users));
  }
}

} // namespace uprobectl
