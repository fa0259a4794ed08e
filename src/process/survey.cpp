#include "uprobectl/process.hpp"

#include <set>

namespace uprobectl {

namespace {

bool covers(const Mapping& mapping, FileOffset offset) {
  return mapping.offset <= offset &&
         offset.value - mapping.offset.value < mapping.end - mapping.start;
}

// On overlayfs and btrfs the device in maps is not the one stat reports: there an equal inode
// number under an equal path is the same file.
bool same_file(const Mapping& mapping, const ProbedFile& file) {
  if (mapping.identity.inode != file.identity.inode) return false;
  return mapping.identity.device == file.identity.device || mapping.path == file.real_path;
}

// Over executable mappings.
void count_process(pid_t pid, const std::vector<Mapping>& mappings, const ProbedFile& file,
                   MappingSurvey& survey) {
  bool other = false;
  for (const Mapping& mapping : mappings) {
    if (same_file(mapping, file)) {
      if (covers(mapping, file.offset)) {
        survey.executable.push_back(pid);
        return;
      }
    } else if (mapping.path == file.real_path) {
      other = true;
    }
  }
  if (other) survey.other_inode.push_back(pid);
}

} // namespace

std::vector<MappingSurvey> survey_mappings(std::span<const ProbedFile> files,
                                           std::span<const pid_t> pids) {
  std::vector<MappingSurvey> surveys(files.size());
  const std::vector<pid_t> everyone =
      pids.empty() ? all_processes() : std::vector<pid_t>(pids.begin(), pids.end());
  // Thousands of probes mostly share one file, and most mappings are of others.
  std::set<std::uint64_t> inodes;
  std::set<std::string_view> paths;
  for (const ProbedFile& file : files) {
    inodes.insert(file.identity.inode);
    paths.insert(file.real_path);
  }
  for (const pid_t pid : everyone) {
    auto mappings = mappings_of(pid);
    if (!mappings) {
      if (mappings.error().kind == ErrorKind::not_found) continue; // it has ended meanwhile
      for (MappingSurvey& survey : surveys) ++survey.unreadable;
      continue;
    }
    std::erase_if(*mappings, [&](const Mapping& mapping) {
      return !mapping.executable ||
             (!inodes.contains(mapping.identity.inode) && !paths.contains(mapping.path));
    });
    for (std::size_t i = 0; i < files.size(); ++i)
      count_process(pid, *mappings, files[i], surveys[i]);
  }
  return surveys;
}

} // namespace uprobectl
