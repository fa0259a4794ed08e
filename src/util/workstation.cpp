// SPDX-License-Identifier: Apache-2.0
#include "util/workstation.hpp"

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

namespace uprobectl {

UniqueFd Workstation::open(const std::string& path, int flags, mode_t mode) {
  return UniqueFd(::open(path.c_str(), flags, mode));
}

bool Workstation::make_folder(const std::string& path, mode_t mode) {
  return ::mkdir(path.c_str(), mode) == 0;
}

bool Workstation::exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

bool Workstation::remove_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  errno = error.value();
  return !error;
}

bool Workstation::is_terminal(int fd) const { return ::isatty(fd) == 1; }

UniqueFd Workstation::request(const WorkstationRequest& /*request*/) {
  errno = ENOSYS;
  return {};
}

Result<MappedFile> Workstation::map(const std::string& path) {
  if (!has(path)) return MappedFile::open(path);
  UniqueFd file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  struct stat status{};
  if (!file || ::fstat(file.get(), &status) != 0) return fail(system_error(errno, path));
  if (!S_ISREG(status.st_mode)) return fail(ErrorKind::io, path + ": not a regular file");
  return MappedFile::of_copy(std::move(file), path);
}

Workstation& this_machine() {
  static Workstation machine;
  return machine;
}

} // namespace uprobectl
