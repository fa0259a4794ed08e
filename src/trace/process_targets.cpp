// SPDX-License-Identifier: Apache-2.0
#include "trace/process_targets.hpp"

#include "process/proc.hpp"
#include "resolve/in_process.hpp"
#include "resolve/locate.hpp"
#include "resolve/needed_files.hpp"
#include "uprobectl/process.hpp"
#include "util/rooted_path.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <sys/stat.h>

namespace uprobectl::trace {

namespace {

constexpr std::string_view own_executable = "/proc/self/exe";

// The path of a process's executable if that is the file here, else "/proc/PID/exe".
std::string executable_path(pid_t pid, const std::optional<FileIdentity>& identity) {
  const std::string link = process::live_path(pid, "exe");
  auto path = read_link(link);
  struct stat named{};
  const bool is_same = path && ::stat(path->c_str(), &named) == 0 &&
                       identity == FileIdentity{named.st_dev, named.st_ino};
  return is_same ? std::move(*path) : link;
}

Result<std::vector<std::string>> find_executables(std::span<const pid_t> pids,
                                                  std::span<const std::string> command) {
  if (!command.empty()) {
    auto path = resolve::find_program_file(command.front());
    if (!path) return fail(std::move(path).error());
    return std::vector{std::move(*path)};
  }
  if (pids.empty())
    return fail(Error{ErrorKind::usage, std::string(own_executable) +
                                            ": a section of the program means the probed program"}
                    .hint("name it: -p PID, or -- COMMAND"));
  std::vector<std::string> paths;
  std::vector<std::optional<FileIdentity>> known;
  for (const pid_t pid : pids) {
    const auto identity = process::process_executable(pid);
    if (std::ranges::find(known, identity) != known.end()) continue;
    known.push_back(identity);
    paths.push_back(executable_path(pid, identity));
  }
  return paths;
}

// "libc": a library without folder and suffix.
bool is_short_library(std::string_view target) {
  return target.starts_with("lib") && target.find_first_of("./") == std::string_view::npos;
}

// The file name of a library that the processes map. `name` is without "lib" and suffix.
std::optional<std::string> find_mapped(std::string_view name, std::span<const pid_t> pids) {
  const auto found = resolve::find_in_processes(name, pids);
  if (!found || found->empty()) return std::nullopt;
  const BinaryPath& path = found->front().display_path;
  return std::string(file_name_of(path.entry ? *path.entry : path.file));
}

bool defines(const std::string& library, const std::string& function) {
  const auto target = resolve::Target::open(library);
  const auto parsed = resolve::parse_function(function);
  return target && parsed && target->resolve(*parsed).has_value();
}

// The libraries that glibc 2.34 has made part of libc, with a function that each had.
constexpr std::array merged_libraries = {std::pair("libpthread", "pthread_create"),
                                         std::pair("libdl", "dlopen"),
                                         std::pair("librt", "timer_create")};

// The first version of a library among those that the loader knows: "libssl.so.3".
std::string find_installed(std::string_view library) {
  // locate() takes the name without "lib".
  const auto found = resolve::locate(library.substr(std::string_view("lib").size()),
                                     {.loader_cache = resolve::host_search_paths().loader_cache,
                                      .library_dirs = resolve::host_search_paths().library_dirs,
                                      .program_dirs = {}});
  return found.empty() ? std::string() : found.front().path;
}

std::string find_library(const std::string& library, std::span<const pid_t> pids,
                         std::span<const std::string> command) {
  const std::string name = library.substr(std::string_view("lib").size()); // as TARGETs have it
  const auto merged = std::ranges::find(merged_libraries, library,
                                        [](const auto& each) { return std::string(each.first); });
  const bool is_merged = merged != merged_libraries.end();
  const auto find = [&](std::string_view wanted) {
    if (command.empty()) return find_mapped(wanted, pids);
    return resolve::find_needed_library(command.front(), wanted).value_or(std::nullopt);
  };
  if (auto used = find(name)) return *used;
  if (is_merged)
    if (auto libc = find("c")) return *libc;
  std::string installed = find_installed(library);
  if (is_merged && (installed.empty() || !defines(installed, merged->second)))
    installed = find_installed("libc");
  return installed.empty() ? library : installed;
}

} // namespace

Result<std::vector<ProbeRequest>> find_process_targets(std::vector<ProbeRequest> requests,
                                                       std::span<const pid_t> pids,
                                                       std::span<const std::string> command) {
  std::vector<ProbeRequest> found;
  for (ProbeRequest& request : requests) {
    if (is_short_library(request.target))
      request.target = find_library(request.target, pids, command);
    if (request.target != own_executable) {
      found.push_back(std::move(request));
      continue;
    }
    auto executables = find_executables(pids, command);
    if (!executables) return fail(std::move(executables).error());
    for (std::string& path : *executables) {
      found.push_back(request);
      found.back().target = std::move(path);
    }
  }
  return found;
}

} // namespace uprobectl::trace
