// SPDX-License-Identifier: Apache-2.0
#include "process/survey.hpp"

#include "util/clock.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <unistd.h>

namespace uprobectl {

namespace {

// Returns "libssl.so" for "libssl.so.1.1".
std::string_view without_version(std::string_view name) {
  constexpr std::string_view ending = ".so";
  const auto at = name.find(".so.");
  return at == std::string_view::npos ? name : name.substr(0, at + ending.size());
}

// Whether it is a file name of an installed APK: base.apk, split_config.arm64_v8a.apk.
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
  // A package name contains no '-'; the directory adds a unique suffix that begins with one.
  return {name, folder.substr(0, folder.find('-'))};
}

namespace {

bool covers(const Mapping& mapping, FileOffset offset) {
  return mapping.offset <= offset &&
         offset.value - mapping.offset.value < mapping.end - mapping.start;
}

// A probed file with its probes. Mappings are compared once per file, not once per probe.
struct SharedFile {
  std::string_view path;
  FileIdentity identity;
  CopyName copy_name;
  std::vector<std::size_t> probes; // indexes into the files

  // An equal inode at an equal path suffices, because the device in maps differs from st_dev on
  // overlayfs and btrfs.
  bool matches(const Mapping& mapping) const {
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

  void add(pid_t pid) {
    auto mappings = read_mappings(pid);
    if (!mappings) {
      if (mappings.error().kind == ErrorKind::not_found) return; // ended meanwhile
      for (MappingSurvey& survey : surveys_) ++survey.unreadable;
      return;
    }
    add(pid, std::move(*mappings));
  }

  bool is_relevant(const Mapping& mapping) const {
    return mapping.executable &&
           (inodes_.contains(mapping.identity.inode) || names_.contains(copy_name(mapping.path)));
  }

  void add(pid_t pid, std::vector<Mapping> mappings) {
    std::erase_if(mappings, [&](const Mapping& mapping) { return !is_relevant(mapping); });
    if (mappings.empty()) return;
    for (const SharedFile& file : shared_) compare(file, pid, mappings);
  }

  std::vector<MappingSurvey> take() { return std::move(surveys_); }

private:
  void compare(const SharedFile& file, pid_t pid, std::span<const Mapping> mappings) {
    std::vector<const Mapping*> own;
    std::vector<std::string_view> copies;
    bool other_inode = false;
    for (const Mapping& mapping : mappings) {
      if (file.matches(mapping))
        own.push_back(&mapping);
      else if (mapping.path == file.path)
        other_inode = true;
      else if (copy_name(mapping.path) == file.copy_name &&
               std::ranges::find(copies, mapping.path) == copies.end())
        copies.push_back(mapping.path);
    }
    const bool is_other_namespace = other_inode && in_other_mount_namespace(pid);
    for (const std::size_t probe : file.probes) {
      MappingSurvey& survey = surveys_[probe];
      const FileOffset offset = files_[probe].offset;
      if (std::ranges::any_of(own, [&](const Mapping* it) { return covers(*it, offset); })) {
        survey.executable.push_back(pid);
      } else if (other_inode) {
        survey.other_inode.push_back(pid);
        if (is_other_namespace) survey.other_mount_namespace.push_back(pid);
      }
      for (const std::string_view path : copies)
        if (survey.other_copies.size() < MappingSurvey::max_copies)
          survey.other_copies.push_back({.pid = pid, .path = std::string(path)});
    }
  }

  bool in_other_mount_namespace(pid_t pid) {
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

bool MappingSurveyor::is_relevant(const Mapping& mapping) const {
  return survey_->is_relevant(mapping);
}
void MappingSurveyor::add(pid_t pid) { survey_->add(pid); }
void MappingSurveyor::add(pid_t pid, std::vector<Mapping> mappings) {
  survey_->add(pid, std::move(mappings));
}
std::vector<MappingSurvey> MappingSurveyor::take() { return survey_->take(); }

bool is_mapped_by_others(std::span<const ProbedFile> files, std::span<const pid_t> pids,
                         std::chrono::milliseconds max_time) {
  // Not what other processes take meanwhile: a busy machine decides as an idle one.
  const auto spent = [] { return std::chrono::nanoseconds(clock_ns(CLOCK_THREAD_CPUTIME_ID)); };
  const auto begin = spent();
  for (const pid_t pid : all_processes()) {
    if (std::ranges::find(pids, pid) != pids.end()) continue;
    if (spent() - begin > max_time) return true;
    const auto mappings = read_mappings(pid);
    // What even root may not read belongs to a guarded process, not to another user of the file.
    if (!mappings && mappings.error().kind == ErrorKind::not_permitted && ::geteuid() != 0)
      return true;
    if (!mappings) continue; // it has ended
    for (const Mapping& mapping : *mappings)
      // An equal inode suffices: the device in maps may differ from st_dev.
      if (mapping.executable &&
          std::ranges::find(files, mapping.identity.inode, [](const ProbedFile& file) {
            return file.identity.inode;
          }) != files.end())
        return true;
  }
  return false;
}

std::vector<MappingSurvey> survey_mappings(std::span<const ProbedFile> files,
                                           std::span<const pid_t> pids) {
  MappingSurveyor surveyor(files);
  const std::vector<pid_t> processes =
      pids.empty() ? all_processes() : std::vector<pid_t>(pids.begin(), pids.end());
  for (const pid_t pid : processes) surveyor.add(pid);
  return surveyor.take();
}

} // namespace uprobectl
