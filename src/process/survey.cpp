// SPDX-License-Identifier: Apache-2.0
#include "process/survey.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <unistd.h>

namespace uprobectl {

namespace {

// "libssl.so" of "libssl.so.1.1".
std::string_view without_version(std::string_view name) {
  constexpr std::string_view ending = ".so";
  const auto at = name.find(".so.");
  return at == std::string_view::npos ? name : name.substr(0, at + ending.size());
}

// What the package manager calls the APKs it installs (Android: base.apk,
// split_config.arm64_v8a.apk).
bool is_installed_apk(std::string_view name) {
  return name == "base.apk" || (name.starts_with("split") && name.ends_with(".apk"));
}

} // namespace

CopyName copy_name(std::string_view path) {
  const auto slash = path.rfind('/');
  if (slash == std::string_view::npos) return {without_version(path), {}};
  const std::string_view name = path.substr(slash + 1);
  if (!is_installed_apk(name)) return {without_version(name), {}};
  std::string_view folder = path.substr(0, slash);
  folder.remove_prefix(folder.rfind('/') + 1); // npos + 1 is 0
  // The name of a package has no '-', what makes its folder unique begins with one.
  return {name, folder.substr(0, folder.find('-'))};
}

namespace {

bool covers(const Mapping& mapping, FileOffset offset) {
  return mapping.offset <= offset &&
         offset.value - mapping.offset.value < mapping.end - mapping.start;
}

// Thousands of probes mostly share one file: what a process maps of it is looked at once.
struct SharedFile {
  std::string_view path;
  FileIdentity identity;
  CopyName copy_name;
  std::vector<std::size_t> probes; // that are in it

  // On overlayfs and btrfs the device in maps is not the one stat reports: there an equal inode
  // number under an equal path is the same file.
  bool is(const Mapping& mapping) const {
    return mapping.identity.inode == identity.inode &&
           (mapping.identity.device == identity.device || mapping.path == path);
  }
};

} // namespace

class MappingSurveyor::Survey {
public:
  explicit Survey(std::span<const ProbedFile> files) : files_(files), surveys_(files.size()) {
    std::map<std::pair<std::string_view, FileIdentity>, std::size_t> known;
    for (std::size_t i = 0; i < files.size(); ++i) {
      const ProbedFile& file = files[i];
      const auto [at, is_new] = known.try_emplace({file.real_path, file.identity}, shared_.size());
      if (is_new) {
        shared_.push_back({.path = file.real_path,
                           .identity = file.identity,
                           .copy_name = copy_name(file.real_path),
                           .probes = {}});
        inodes_.insert(file.identity.inode);
        names_.insert(shared_.back().copy_name);
      }
      shared_[at->second].probes.push_back(i);
    }
  }

  void look_at(pid_t pid) {
    auto mappings = read_mappings(pid);
    if (!mappings) {
      if (mappings.error().kind == ErrorKind::not_found) return; // it has ended meanwhile
      for (MappingSurvey& survey : surveys_) ++survey.unreadable;
      return;
    }
    add(pid, std::move(*mappings));
  }

  bool concerns(const Mapping& mapping) const {
    return mapping.executable &&
           (inodes_.contains(mapping.identity.inode) || names_.contains(copy_name(mapping.path)));
  }

  void add(pid_t pid, std::vector<Mapping> mappings) {
    // Most mappings are of other files.
    std::erase_if(mappings, [&](const Mapping& mapping) { return !concerns(mapping); });
    if (mappings.empty()) return;
    for (const SharedFile& file : shared_) look_for(file, pid, mappings);
  }

  std::vector<MappingSurvey> take() { return std::move(surveys_); }

private:
  void look_for(const SharedFile& file, pid_t pid, std::span<const Mapping> mappings) {
    std::vector<const Mapping*> own;
    std::vector<std::string_view> copies;
    bool other_inode = false;
    for (const Mapping& mapping : mappings) {
      if (file.is(mapping))
        own.push_back(&mapping);
      else if (mapping.path == file.path)
        other_inode = true;
      else if (copy_name(mapping.path) == file.copy_name &&
               std::ranges::find(copies, mapping.path) == copies.end())
        copies.push_back(mapping.path);
    }
    const bool elsewhere = other_inode && is_elsewhere(pid);
    for (const std::size_t probe : file.probes) {
      MappingSurvey& survey = surveys_[probe];
      const FileOffset place = files_[probe].offset;
      if (std::ranges::any_of(own, [&](const Mapping* it) { return covers(*it, place); })) {
        survey.executable.push_back(pid);
      } else if (other_inode) {
        survey.other_inode.push_back(pid);
        if (elsewhere) survey.other_mount_namespace.push_back(pid);
      }
      for (const std::string_view path : copies)
        if (survey.other_copies.size() < MappingSurvey::max_copies)
          survey.other_copies.push_back({.pid = pid, .path = std::string(path)});
    }
  }

  bool is_elsewhere(pid_t pid) {
    if (!own_namespace_) own_namespace_ = read_mount_namespace(::getpid());
    const auto other = read_mount_namespace(pid);
    return other && own_namespace_ && *other != *own_namespace_;
  }

  std::span<const ProbedFile> files_;
  std::vector<SharedFile> shared_;
  std::set<std::uint64_t> inodes_;
  std::set<CopyName> names_;
  std::optional<std::string> own_namespace_;
  std::vector<MappingSurvey> surveys_;
};

MappingSurveyor::MappingSurveyor(std::span<const ProbedFile> files)
    : survey_(std::make_unique<Survey>(files)) {}
MappingSurveyor::MappingSurveyor(MappingSurveyor&&) noexcept = default;
MappingSurveyor& MappingSurveyor::operator=(MappingSurveyor&&) noexcept = default;
MappingSurveyor::~MappingSurveyor() = default;

bool MappingSurveyor::concerns(const Mapping& mapping) const { return survey_->concerns(mapping); }
void MappingSurveyor::look_at(pid_t pid) { survey_->look_at(pid); }
void MappingSurveyor::add(pid_t pid, std::vector<Mapping> mappings) {
  survey_->add(pid, std::move(mappings));
}
std::vector<MappingSurvey> MappingSurveyor::take() { return survey_->take(); }

std::vector<MappingSurvey> survey_mappings(std::span<const ProbedFile> files,
                                           std::span<const pid_t> pids) {
  MappingSurveyor survey(files);
  const std::vector<pid_t> everyone =
      pids.empty() ? all_processes() : std::vector<pid_t>(pids.begin(), pids.end());
  for (const pid_t pid : everyone) survey.look_at(pid);
  return survey.take();
}

} // namespace uprobectl
