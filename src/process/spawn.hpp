// SPDX-License-Identifier: Apache-2.0
// How commands of the system are started. Internal to this module.
#pragma once

#include "uprobectl/util.hpp"

#include <spawn.h>

namespace uprobectl::process {

// The directory of Android's commands: /system/bin, or $UPROBECTL_ANDROID_COMMANDS for tests.
std::string android_command_directory();
// Their PATH. It has no directories that other users can write; the system directories are there
// because some commands are scripts that run others.
std::string android_path();

// The file actions and attributes of posix_spawn.
class SpawnOptions {
public:
  struct Streams {
    int input = -1;  // -1: /dev/null
    int output = -1; // the same
    int errors = -1; // must be set
  };
  explicit SpawnOptions(const Streams& streams);
  SpawnOptions(const SpawnOptions&) = delete;
  SpawnOptions& operator=(const SpawnOptions&) = delete;
  ~SpawnOptions();

  // Returns the pid of the child, which leads a process group of its own. `path` replaces PATH
  // unless it is empty.
  Result<pid_t> start(const std::vector<std::string>& words, const std::string& path) const;

private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

} // namespace uprobectl::process
