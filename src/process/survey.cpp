// SPDX-License-Identifier: Apache-2.0
#include "process/survey.hpp"

#include "process/mapping_kind.hpp"
#include "process/proc.hpp"
#include "process/process_memory.hpp"
#include "util/clock.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <unistd.h>

namespace uprobectl::process {

namespace {

// Returns "libssl.so" for "libssl.so.1.1".
std::string_view without_soname_version(std::string_view name) {
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
  if (slash == std::string_view::npos) return {without_soname_version(path), {}};
  const std::string_view name = path.substr(slash + 1);
  if (!is_installed_apk(name)) return {without_soname_version(name), {}};
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

// Whether the bytes contain a call of the kernel's trampoline, which replaces a breakpoint on a nop
// of x86-64 (Linux 6.18: nop5; 7.2: nop10, with the call in its second half).
bool calls_trampoline(Bytes found, std::uint64_t address, std::span<const Mapping> trampolines) {
  constexpr auto call = std::byte{0xe8};
  constexpr std::uint64_t call_size = 5;
  for (const std::uint64_t at : {std::uint64_t{0}, call_size}) {
    const auto distance = read_at<std::uint32_t>(found, at + 1);
    if (!distance || found[at] != call) continue;
    const auto extended = static_cast<std::int64_t>(static_cast<std::int32_t>(*distance));
    const std::uint64_t target = address + at + call_size + static_cast<std::uint64_t>(extended);
    if (std::ranges::any_of(trampolines, [&](const Mapping& each) {
          return target >= each.start && target < each.end;
        }))
      return true;
  }
  return false;
}

// A probed file with its probes. Mappings are compared once per file, not once per probe.
struct SharedFile {
  std::string_view path;
  FileIdentity identity;
  CopyName copy_name;
  std::vector<std::size_t> probes; // indexes into the files, by offset
  // The identity in the mappings of this program, if it is known: maps of all processes have the
  // same numbers.
  std::optional<FileIdentity> mapped_identity = {};

  // An equal inode at an equal path suffices, because the device in maps differs from st_dev on
  // overlayfs and btrfs.
  bool matches(const Mapping& mapping) const {
    return mapping.identity.inode == identity.inode &&
           (mapping.identity.device == identity.device || mapping.path == path);
  }
  // An equal path in another mount namespace may be that of another file.
  bool surely_matches(const Mapping& mapping) const {
    return mapped_identity ? mapping.identity == *mapped_identity : matches(mapping);
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
    for (SharedFile& file : shared_)
      std::ranges::sort(file.probes, {}, [&](std::size_t i) { return files_[i].offset; });
  }

  void compare_code(std::span<const ProbedCode> code, CodeState expected) {
    code_ = code;
    expected_ = expected;
    code_survey_.findings.resize(code.size());
    code_survey_.unprobeable.resize(code.size());
    code_survey_.is_probeable.resize(code.size());
    const auto own = read_all_mappings(::getpid());
    for (SharedFile& file : shared_)
      if (own) file.mapped_identity = find_own_identity(file, *own);
  }

  void add(pid_t pid) {
    std::vector<MappingAccess> access;
    auto mappings = read_all_mappings(pid, access);
    if (!mappings) {
      if (mappings.error().kind == ErrorKind::not_found) return; // ended meanwhile
      for (MappingSurvey& survey : surveys_) ++survey.unreadable;
      return;
    }
    if (!code_.empty()) compare_memory(pid, *mappings, access);
    add(pid, std::move(*mappings));
  }

  bool is_relevant(const Mapping& mapping) const {
    return mapping.executable &&
           (inodes_.contains(mapping.identity.inode) || names_.contains(copy_name(mapping.path)));
  }

  void add(pid_t pid, std::vector<Mapping> mappings) {
    std::erase_if(mappings, [&](const Mapping& mapping) {
      return mapping.identity.inode == 0 || mapping.path.empty() || !is_relevant(mapping);
    });
    if (mappings.empty()) return;
    for (const SharedFile& file : shared_) compare(file, pid, mappings);
  }

  std::vector<MappingSurvey> take() { return std::move(surveys_); }
  CodeSurvey take_code() { return std::move(code_survey_); }

private:
  // The instructions are views of the mapped file.
  std::optional<FileIdentity> find_own_identity(const SharedFile& file,
                                                std::span<const Mapping> own) const {
    for (const std::size_t probe : file.probes) {
      if (code_[probe].instruction.empty()) continue;
      const auto address = reinterpret_cast<std::uint64_t>(code_[probe].instruction.data());
      const auto mapping = std::ranges::find_if(
          own, [&](const Mapping& each) { return address >= each.start && address < each.end; });
      if (mapping == own.end() || mapping->identity.inode != file.identity.inode) return {};
      return mapping->identity;
    }
    return std::nullopt;
  }

  void compare_memory(pid_t pid, std::span<const Mapping> mappings,
                      std::span<const MappingAccess> access) {
    std::vector<Mapping> trampolines;
    std::optional<ProcessMemory> memory;
    for (std::size_t i = 0; i < mappings.size(); ++i) {
      if (const auto replaced = find_replaced_code(mappings, i))
        add_obstacle(pid, *replaced, MappingObstacle::replaced);
      if (mappings[i].path.starts_with("[uprobes")) trampolines.push_back(mappings[i]);
    }
    for (std::size_t i = 0; i < mappings.size(); ++i)
      for (const SharedFile& file : shared_) {
        if (!mappings[i].executable || !file.surely_matches(mappings[i])) continue;
        const bool takes_breakpoints = access[i].takes_breakpoints();
        if (!takes_breakpoints)
          add_obstacle(pid, mappings[i],
                       access[i].shared ? MappingObstacle::shared : MappingObstacle::writable);
        for (const std::size_t probe : file.probes)
          if (takes_breakpoints && covers(mappings[i], files_[probe].offset))
            code_survey_.is_probeable[probe] = true;
        if (!memory) {
          if (readings_ >= CodeSurvey::max_readings) {
            ++code_survey_.omitted;
            return;
          }
          memory.emplace(pid);
          if (!memory->is_permitted()) code_survey_.unreadable.push_back(pid);
        }
        compare_mapping(*memory, file, pid, mappings[i], takes_breakpoints, trampolines);
      }
  }

  void add_obstacle(pid_t pid, const Mapping& mapping, MappingObstacle obstacle) {
    const UnprobeableMapping found{.pid = pid, .obstacle = obstacle};
    for (const SharedFile& file : shared_) {
      if (!file.surely_matches(mapping)) continue;
      for (const std::size_t probe : file.probes) {
        std::vector<UnprobeableMapping>& known = code_survey_.unprobeable[probe];
        if (covers(mapping, files_[probe].offset) && std::ranges::find(known, found) == known.end())
          known.push_back(found);
      }
    }
  }

  // Reads the instructions of a page at once.
  void compare_mapping(const ProcessMemory& memory, const SharedFile& file, pid_t pid,
                       const Mapping& mapping, bool takes_breakpoints,
                       std::span<const Mapping> trampolines) {
    const auto address_of = [&](std::size_t probe) {
      return mapping.start + (files_[probe].offset.value - mapping.offset.value);
    };
    std::vector<std::size_t> covered;
    for (const std::size_t probe : file.probes)
      if (covers(mapping, files_[probe].offset) && !code_[probe].instruction.empty())
        covered.push_back(probe);
    std::array<std::byte, 4096> page; // filled by read()
    for (std::size_t i = 0; i < covered.size();) {
      const std::uint64_t begin = address_of(covered[i]);
      std::size_t next = i;
      std::uint64_t size = 0;
      for (; next < covered.size(); ++next) {
        const std::uint64_t end =
            address_of(covered[next]) + code_[covered[next]].instruction.size() - begin;
        if (end > page.size()) break;
        size = std::max(size, end);
      }
      ++readings_;
      if (memory.read(begin, std::span(page).first(size)))
        for (std::size_t each = i; each < next; ++each) {
          const std::uint64_t address = address_of(covered[each]);
          compare_instruction(
              covered[each], pid, takes_breakpoints, address,
              Bytes(page).subspan(address - begin, code_[covered[each]].instruction.size()),
              trampolines);
        }
      i = next;
    }
  }

  void compare_instruction(std::size_t probe, pid_t pid, bool takes_breakpoints,
                           std::uint64_t address, Bytes found,
                           std::span<const Mapping> trampolines) {
    const auto [instruction, breakpoint] = code_[probe];
    CodeState state = CodeState::changed;
    if (std::ranges::equal(found, instruction))
      state = CodeState::intact;
    else if ((found.size() >= breakpoint.size() &&
              std::ranges::equal(found.first(breakpoint.size()), breakpoint) &&
              std::ranges::equal(found.subspan(breakpoint.size()),
                                 instruction.subspan(breakpoint.size()))) ||
             calls_trampoline(found, address, trampolines))
      state = CodeState::breakpoint;
    if (state == expected_) return;
    code_survey_.findings[probe].push_back({.pid = pid,
                                            .address = address,
                                            .state = state,
                                            .takes_breakpoints = takes_breakpoints,
                                            .found = {found.begin(), found.end()}});
  }

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
  std::span<const ProbedCode> code_;
  CodeState expected_ = CodeState::intact;
  CodeSurvey code_survey_;
  std::size_t readings_ = 0;
};

MappingSurveyor::MappingSurveyor(std::span<const ProbedFile> files)
    : survey_(std::make_unique<Survey>(files)) {}
MappingSurveyor::MappingSurveyor(std::span<const ProbedFile> files,
                                 std::span<const ProbedCode> code, CodeState expected)
    : MappingSurveyor(files) {
  survey_->compare_code(code, expected);
}
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
CodeSurvey MappingSurveyor::take_code() { return survey_->take_code(); }

bool is_mapped_by_others(std::span<const ProbedFile> files, std::span<const pid_t> pids,
                         std::size_t max_mappings) {
  for (const pid_t pid : all_processes()) {
    if (std::ranges::find(pids, pid) != pids.end()) continue;
    const auto mappings = read_mappings(pid);
    // Mappings that even root may not read belong to a guarded process, not to another user of the
    // file.
    if (!mappings && mappings.error().kind == ErrorKind::not_permitted && ::geteuid() != 0)
      return true;
    if (!mappings) continue; // it has ended
    if (mappings->size() > max_mappings) return true;
    max_mappings -= mappings->size();
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

} // namespace uprobectl::process
