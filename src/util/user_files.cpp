// SPDX-License-Identifier: Apache-2.0
#include "util/user_files.hpp"

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

namespace uprobectl {

namespace {

constinit Workstation* the_workstation = nullptr;

} // namespace

void set_workstation(Workstation& workstation) { the_workstation = &workstation; }

Workstation* workstation_with(const std::string& path) {
  return the_workstation != nullptr && the_workstation->has(path) ? the_workstation : nullptr;
}

std::string workstation_command_options() {
  return the_workstation != nullptr ? the_workstation->command_options() : std::string();
}

UniqueFd open_user_file(const std::string& path, int flags, mode_t mode) {
  if (Workstation* const there = workstation_with(path)) return there->open(path, flags, mode);
  return UniqueFd(::open(path.c_str(), flags, mode));
}

bool make_user_folder(const std::string& path, mode_t mode) {
  if (Workstation* const there = workstation_with(path)) return there->make_folder(path, mode);
  return ::mkdir(path.c_str(), mode) == 0;
}

bool user_file_exists(const std::string& path) {
  if (Workstation* const there = workstation_with(path)) return there->exists(path);
  return ::access(path.c_str(), F_OK) == 0;
}

bool remove_user_folder(const std::string& path) {
  if (Workstation* const there = workstation_with(path)) return there->remove_folder(path);
  std::error_code error;
  std::filesystem::remove_all(path, error);
  errno = error.value();
  return !error;
}

bool is_user_terminal(int fd) {
  return the_workstation != nullptr ? the_workstation->is_terminal(fd) : ::isatty(fd) == 1;
}

} // namespace uprobectl
