#include "session/silence.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl {

namespace {

std::string plural(std::size_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : noun.ends_with('s') ? "es" : "s");
}

std::string name_process(pid_t pid) {
  const auto name = command_name(pid);
  return name ? fmt::format("process {} ({})", pid, *name) : fmt::format("process {}", pid);
}

void unite(std::vector<pid_t>& into, const std::vector<pid_t>& from) {
  into.insert(into.end(), from.begin(), from.end());
  std::ranges::sort(into);
  into.erase(std::ranges::unique(into).begin(), into.end());
}

} // namespace

std::vector<MappingSurvey> survey_points(std::span<const ProbePoint> points,
                                         std::span<const pid_t> pids) {
  std::vector<ProbedFile> files;
  files.reserve(points.size());
  for (const ProbePoint& point : points)
    files.push_back({.real_path = point.binary->real_path,
                     .identity = point.binary->file->identity(),
                     .offset = *point.offset});
  return survey_mappings(files, pids);
}

void add_earlier(std::vector<MappingSurvey>& now, std::span<const MappingSurvey> earlier) {
  for (std::size_t i = 0; i < now.size() && i < earlier.size(); ++i) {
    unite(now[i].executable, earlier[i].executable);
    unite(now[i].other_inode, earlier[i].other_inode);
  }
}

std::string explain_silence(const MappingSurvey& survey, std::span<const pid_t> pids,
                            FileChange change) {
  if (!survey.executable.empty())
    return fmt::format("mapped by {}, but not called while it was probed",
                       survey.executable.size() == 1 ? name_process(survey.executable.front())
                                                     : plural(survey.executable.size(), "process"));
  if (!survey.other_inode.empty() && change == FileChange::replaced)
    return fmt::format("{} maps the file that has this path by now: the one probed was replaced "
                       "meanwhile, run it again",
                       name_process(survey.other_inode.front()));
  if (!survey.other_inode.empty())
    return fmt::format("{} maps another file that had this path: it was replaced, restart the "
                       "process to probe it",
                       name_process(survey.other_inode.front()));
  // What has ended maps nothing any more: it can only be said what was seen while it lived.
  if (!pids.empty() &&
      std::ranges::none_of(pids, [](pid_t pid) { return command_name(pid).has_value(); }))
    return pids.size() == 1
               ? fmt::format("process {} has ended and was not seen to map this file executable",
                             pids.front())
               : std::string("the processes have ended, and none was seen to map this file "
                             "executable");
  std::string text =
      pids.size() == 1
          ? fmt::format("{} does not map this file executable", name_process(pids.front()))
          : std::string(pids.empty() ? "no process maps this file executable"
                                     : "none of the processes maps this file "
                                       "executable");
  if (survey.unreadable > 0)
    text += fmt::format(" ({} could not be looked at)", plural(survey.unreadable, "process"));
  return text;
}

} // namespace uprobectl
