// SPDX-License-Identifier: Apache-2.0
#include "uprobestats/task_processes.hpp"

#include "process/proc.hpp"
#include "uprobectl/process.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <utility>

namespace uprobectl::uprobestats {

namespace {

// Scans find children, which inherit their parent's arguments without a rename.
constexpr std::chrono::milliseconds between_scans{500};

constexpr uid_t users_per_device_user = 100'000; // UserHandle.PER_USER_RANGE
constexpr uid_t first_app = 10'000;              // Process.FIRST_APPLICATION_UID

// argv[0], which Android sets to the name of the process.
std::optional<std::string> read_process_name(pid_t pid) {
  auto arguments = process::try_read_pseudo_file(process::proc_path(pid, "cmdline"));
  if (arguments) arguments->resize(std::min(arguments->find('\0'), arguments->size()));
  return arguments;
}

bool is_zygote(std::string_view name) {
  return name == "zygote" || name == "zygote64" || name == "webview_zygote" ||
         name.ends_with("_zygote");
}

// The list of names: an empty one, which no process has, stands for apps.
std::vector<std::string> with_apps(std::vector<std::string> names, bool any_app) {
  if (any_app) names.emplace_back();
  return names;
}

bool is_wanted(pid_t pid, std::string_view name) {
  return name.empty() ? is_app(pid) : has_process_name(pid, name);
}

} // namespace

bool has_process_name(pid_t pid, std::string_view name) { return read_process_name(pid) == name; }

bool is_app(pid_t pid) {
  const auto name = read_process_name(pid);
  if (!name || name->empty() || is_zygote(*name) || name->starts_with("usap") ||
      *name == "<pre-initialized>")
    return false;
  const auto user = process::process_user(pid);
  if (!user || *user % users_per_device_user < first_app) return false;
  const auto stat = process::try_read_pseudo_file(process::proc_path(pid, "stat"));
  const auto parent = stat ? process::parse_parent(*stat) : std::nullopt;
  const auto parent_name = parent ? read_process_name(*parent) : std::nullopt;
  return parent_name && is_zygote(*parent_name);
}

// art/runtime/jit/jit_memory_region.cc: "/memfd:jit-cache", before Android 10 "jit-code-cache".
bool has_run_time_code(pid_t pid) {
  const auto mappings = process::read_all_mappings(pid);
  return mappings && std::ranges::any_of(*mappings, [](const process::Mapping& mapping) {
           return mapping.executable && (mapping.path.find("jit-cache") != std::string::npos ||
                                         mapping.path.find("jit-code-cache") != std::string::npos);
         });
}

TaskProcesses::TaskProcesses(std::vector<std::string> names, bool any_app)
    : app_index_(names.size()), names_(with_apps(std::move(names), any_app), is_wanted) {
  if (auto renames = bpf::ProcessSet::start({})) renames_ = std::move(*renames);
}

void TaskProcesses::forget_ended() {
  std::erase_if(known_, [&](const auto& each) {
    const bool ended = each.second.process.has_ended();
    if (ended) ended_.push_back(each.first);
    return ended;
  });
}

std::vector<pid_t> TaskProcesses::take_ended() { return std::exchange(ended_, {}); }

void TaskProcesses::add_if_new(pid_t pid, std::span<const std::size_t> names,
                               std::vector<Found>& found) {
  for (const std::size_t name : names) {
    const auto [begin, end] = known_.equal_range(pid);
    if (std::any_of(begin, end, [&](const auto& each) { return each.second.name == name; }))
      continue;
    process::ProcessHandle process(pid);
    if (process.open_error() == ESRCH) continue; // it has ended
    known_.emplace(pid, Known{name, std::move(process)});
    if (has_looked_ || name != app_index_) found.push_back({name, pid});
  }
}

std::vector<TaskProcesses::Found> TaskProcesses::find_new(Time now) {
  forget_ended();
  std::vector<Found> found;
  const trace::NameWatch::Visit visit = [&](pid_t pid, std::span<const std::size_t> names) {
    add_if_new(pid, names, found);
  };
  const bool seen_all = !renames_ || names_.look(*renames_, now, visit);
  if (seen_all && now < next_scan_) return found;
  next_scan_ = now + between_scans;
  names_.scan(visit);
  has_looked_ = true;
  return found;
}

TaskProcesses::Time TaskProcesses::next_look() const {
  return std::min(next_scan_, names_.next_look().value_or(next_scan_));
}

void TaskProcesses::add_to(std::vector<pollfd>& polled) const {
  if (renames_) polled.push_back({.fd = renames_->poll_fd(), .events = POLLIN, .revents = 0});
}

std::string_view jar_name(std::string_view compiled) {
  std::string_view name = compiled.substr(compiled.rfind('/') + 1);
  const auto dot = name.rfind('.');
  if (dot == std::string_view::npos) return {};
  const std::string_view extension = name.substr(dot);
  if (extension != ".odex" && extension != ".oat" && extension != ".dex") return {};
  name = name.substr(0, dot);
  if (const auto classes = name.rfind("@classes"); classes != std::string_view::npos) {
    name = name.substr(0, classes);
    name = name.substr(name.rfind('@') + 1);
    return name.substr(0, name.rfind('.'));
  }
  return name;
}

std::string_view package_name(std::string_view compiled) {
  const auto ends_at = [&](std::string_view mark) {
    return compiled.substr(0, std::min(compiled.find(mark), compiled.size()));
  };
  std::string_view folder = ends_at("/oat/");
  if (folder.size() == compiled.size()) folder = ends_at(".apk@classes");
  if (folder.size() == compiled.size()) return {};
  if (folder.find('@') != std::string_view::npos) folder = folder.substr(0, folder.rfind('@'));
  folder = folder.substr(folder.find_last_of("/@") + 1);
  return folder.substr(0, folder.find('-'));
}

bool is_same_jar(std::string_view one, std::string_view other) {
  const std::string_view jar = jar_name(one);
  if (jar.empty() || jar != jar_name(other)) return false;
  if (jar != "base" && !jar.starts_with("split_")) return true;
  const std::string_view package = package_name(one);
  return !package.empty() && package == package_name(other);
}

std::optional<std::string> find_other_build(pid_t pid, std::span<const std::string> files) {
  const auto mappings = process::read_mappings(pid);
  if (!mappings) return std::nullopt;
  for (const process::Mapping& mapping : *mappings) {
    if (std::ranges::find(files, mapping.path) != files.end()) continue;
    if (std::ranges::any_of(
            files, [&](const std::string& file) { return is_same_jar(file, mapping.path); }))
      return mapping.path;
  }
  return std::nullopt;
}

} // namespace uprobectl::uprobestats
