// Control groups of version 2, as people name them. Source: Linux
// Documentation/admin-guide/cgroup-v2.rst, filesystems/proc.rst (mountinfo).
#pragma once

#include "uprobectl/base.hpp"

#include <sys/types.h>

namespace uprobectl {

// Where cgroup2 is mounted, first of several; the text is that of a mountinfo file.
std::optional<std::string> cgroup2_mount(std::string_view mountinfo);

class ControlGroup {
public:
  // An absolute path, or one from where cgroup2 is mounted on. not_found, or usage where the folder
  // is none of cgroup2.
  static Result<ControlGroup> open(std::string_view path);

  int fd() const { return fd_.get(); } // of the folder
  const std::string& path() const { return path_; }
  // Its processes and those of the groups below it, ascending.
  std::vector<pid_t> processes() const;

private:
  ControlGroup(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  UniqueFd fd_;
  std::string path_;
};

} // namespace uprobectl
