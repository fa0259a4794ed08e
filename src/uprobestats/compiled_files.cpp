// SPDX-License-Identifier: Apache-2.0
#include "uprobestats/compiled_files.hpp"

#include "uprobectl/arch.hpp"
#include "uprobectl/process.hpp"
#include "uprobestats/task_processes.hpp"

#include <algorithm>
#include <filesystem>
#include <tuple>

namespace uprobectl::uprobestats {

namespace {

constexpr std::size_t max_files = 1024;

bool is_compiled(std::string_view path) {
  return !jar_name(path).empty() && !path.ends_with(".dex"); // ".dex" is also in other paths
}

// The names of ART's instruction sets, 64-bit first.
std::vector<std::string> instruction_sets() {
  std::vector<std::string> names;
  for (const ArchInfo* const arch : all_archs())
    if (!arch->android_isa.empty()) names.emplace_back(arch->android_isa);
  std::ranges::sort(
      names, {}, [](const std::string& name) { return std::tuple(!name.ends_with("64"), name); });
  return names;
}

void add(std::vector<std::string>& files, std::string path) {
  if (files.size() < max_files && std::ranges::find(files, path) == files.end())
    files.push_back(std::move(path));
}

void add_folder(std::vector<std::string>& files, const std::string& folder) {
  std::error_code error;
  std::vector<std::string> found;
  auto at = std::filesystem::directory_iterator(folder, error);
  for (; !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
    const std::string path = at->path().string();
    // Dalvik-cache has system@framework@services.jar@classes.dex, which is an OAT file.
    if (is_compiled(path) || path.ends_with("@classes.dex")) found.push_back(path);
  }
  std::ranges::sort(found);
  for (std::string& path : found) add(files, std::move(path));
}

void add_mapped(std::vector<std::string>& files, std::string_view process_name) {
  for (const pid_t pid : process::find_named_processes(process_name)) {
    const auto mappings = process::read_mappings(pid);
    if (!mappings || !has_process_name(pid, process_name)) continue;
    for (const process::Mapping& mapping : *mappings)
      if (mapping.executable && !mapping.deleted && is_compiled(mapping.path))
        add(files, mapping.path);
  }
}

} // namespace

std::vector<std::string> find_compiled_files(const std::optional<std::string>& root,
                                             std::string_view process_name) {
  std::vector<std::string> files;
  if (!root && !process_name.empty()) add_mapped(files, process_name);
  const std::string base = root.value_or("");
  for (const std::string& name : instruction_sets()) {
    // odrefresh compiles again after an update of a module, and replaces what the image has.
    add_folder(files, base + "/data/misc/apexdata/com.android.art/dalvik-cache/" + name);
    add_folder(files, base + "/data/dalvik-cache/" + name);
    add_folder(files, base + "/system/framework/oat/" + name);
    add_folder(files, base + "/system/framework/" + name);
  }
  return files;
}

} // namespace uprobectl::uprobestats
