#include "session/silence.hpp"

#include "session/counted.hpp"
#include "session/process_history.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl {

namespace {

std::string name_process(pid_t pid) {
  const auto name = command_name(pid);
  return name ? fmt::format("process {} ({})", pid, *name) : fmt::format("process {}", pid);
}

template <typename Seen>
void unite(std::vector<Seen>& into, const std::vector<Seen>& from) {
  into.insert(into.end(), from.begin(), from.end());
  std::ranges::sort(into);
  into.erase(std::ranges::unique(into).begin(), into.end());
}

bool contains(std::span<const pid_t> pids, pid_t pid) {
  return std::ranges::find(pids, pid) != pids.end();
}

std::string explain_other_inode(const MappingSurvey& survey, const SilenceFacts& facts) {
  // One that sees another file there because its mounts are others says less of the rest.
  const auto here = std::ranges::find_if(
      survey.other_inode, [&](pid_t pid) { return !contains(survey.elsewhere, pid); });
  if (here == survey.other_inode.end()) {
    const pid_t pid = survey.other_inode.front();
    const auto way = facts.takes_pids ? fmt::format("-p {} probes that one", pid)
                                      : fmt::format("nsenter -m -t {} runs it there", pid);
    return fmt::format("{} maps another file at this path, that of its own mount namespace: {}",
                       name_process(pid), way);
  }
  if (facts.change == FileChange::replaced)
    return fmt::format("{} maps the file that has this path by now: the one probed was replaced "
                       "meanwhile, run it again",
                       name_process(*here));
  return fmt::format("{} maps another file that had this path: it was replaced, restart the "
                     "process to probe it",
                     name_process(*here));
}

std::string explain_unmapped(const MappingSurvey& survey, std::span<const pid_t> pids) {
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
    text += fmt::format(" ({} could not be looked at)",
                        counted(survey.unreadable, "process", "processes"));
  return text;
}

// "; process 4711 (app) maps another copy of it: /opt/lib/libfoo.so". Where all processes were
// looked at and some map the file itself, copies are nothing to wonder at.
std::string mention_copy(const MappingSurvey& survey, bool filtered) {
  if (survey.other_copies.empty() || (!filtered && !survey.executable.empty())) return {};
  const OtherCopy& copy = survey.other_copies.front();
  const std::string_view too = contains(survey.executable, copy.pid) ? ", too" : "";
  return fmt::format("; {} maps another copy of it{}: {}", name_process(copy.pid), too, copy.path);
}

std::string mention_inlined(const SilenceFacts& facts) {
  if (facts.inlined.value_or(0) == 0) return {};
  return fmt::format("; it is inlined at {}, which no probe sees",
                     counted(*facts.inlined, "place", "places"));
}

std::string mention_children(std::span<const pid_t> children) {
  if (children.empty()) return {};
  if (children.size() == 1)
    return fmt::format("; {}, a descendant, {} it: --follow probes it, too",
                       name_process(children.front()),
                       command_name(children.front()) ? "maps" : "mapped");
  const bool any_runs =
      std::ranges::any_of(children, [](pid_t pid) { return command_name(pid).has_value(); });
  return fmt::format("; {} {} it: --follow probes them, too",
                     counted(children.size(), "descendant", "descendants"),
                     any_runs ? "map" : "mapped");
}

} // namespace

std::vector<MappingSurvey> survey_points(std::span<const ProbePoint> points,
                                         std::span<const pid_t> pids) {
  return survey_mappings(probed_files(points), pids);
}

void add_earlier(std::vector<MappingSurvey>& now, std::span<const MappingSurvey> earlier) {
  for (std::size_t i = 0; i < now.size() && i < earlier.size(); ++i) {
    unite(now[i].executable, earlier[i].executable);
    unite(now[i].other_inode, earlier[i].other_inode);
    unite(now[i].elsewhere, earlier[i].elsewhere);
    unite(now[i].other_copies, earlier[i].other_copies);
  }
}

std::string explain_silence(const MappingSurvey& survey, std::span<const pid_t> pids,
                            const SilenceFacts& facts) {
  std::string text;
  if (!survey.executable.empty())
    text = fmt::format("mapped by {}, but not called while it was probed",
                       survey.executable.size() == 1
                           ? name_process(survey.executable.front())
                           : counted(survey.executable.size(), "process", "processes")) +
           mention_inlined(facts);
  else if (facts.file_was_hit)
    text = "other functions of this file were hit, this one was not called while it was probed" +
           mention_inlined(facts);
  else if (!survey.other_inode.empty())
    text = explain_other_inode(survey, facts);
  else
    text = explain_unmapped(survey, pids);
  return text + mention_copy(survey, !pids.empty()) + mention_children(facts.children);
}

std::vector<std::vector<pid_t>> children_mapping(std::span<const ProbePoint> points,
                                                 std::span<const pid_t> pids) {
  std::vector<pid_t> children;
  for (const pid_t pid : pids) unite(children, descendants_of(pid));
  std::erase_if(children, [&](pid_t pid) { return contains(pids, pid); });
  std::vector<std::vector<pid_t>> result(points.size());
  if (children.empty()) return result;
  const std::vector<MappingSurvey> surveys = survey_points(points, children);
  for (std::size_t i = 0; i < surveys.size(); ++i) result[i] = surveys[i].executable;
  return result;
}

} // namespace uprobectl
