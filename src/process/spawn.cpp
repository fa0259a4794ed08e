// SPDX-License-Identifier: Apache-2.0
#include "process/spawn.hpp"

#include "util/ignored_signals.hpp"

#include <cstdlib>
#include <fcntl.h>
#include <unistd.h>

extern char** environ;

namespace uprobectl::process {

std::string android_command_directory() {
  const char* chosen = std::getenv("UPROBECTL_ANDROID_COMMANDS");
  return chosen != nullptr && *chosen == '/' ? chosen : "/system/bin";
}

std::string android_path() { return android_command_directory() + ":/system/bin:/usr/bin:/bin"; }

SpawnOptions::SpawnOptions(const Streams& streams) {
  ::posix_spawn_file_actions_init(&actions_);
  if (streams.input < 0)
    ::posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  else
    ::posix_spawn_file_actions_adddup2(&actions_, streams.input, STDIN_FILENO);
  if (streams.output < 0)
    ::posix_spawn_file_actions_addopen(&actions_, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  else
    ::posix_spawn_file_actions_adddup2(&actions_, streams.output, STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions_, streams.errors, STDERR_FILENO);
  // Reset the signals that this process ignores or blocks. A process group of its own allows
  // killing the child together with its children.
  sigset_t none;
  const sigset_t ignored = ignored_signal_set();
  sigemptyset(&none);
  ::posix_spawnattr_init(&attributes_);
  ::posix_spawnattr_setsigmask(&attributes_, &none);
  ::posix_spawnattr_setsigdefault(&attributes_, &ignored);
  ::posix_spawnattr_setpgroup(&attributes_, 0);
  ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                               POSIX_SPAWN_SETPGROUP);
}

SpawnOptions::~SpawnOptions() {
  ::posix_spawn_file_actions_destroy(&actions_);
  ::posix_spawnattr_destroy(&attributes_);
}

Result<pid_t> SpawnOptions::start(const std::vector<std::string>& words,
                                  const std::string& path) const {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  std::string own_path = "PATH=" + path;
  std::vector<char*> variables;
  for (char** variable = environ; *variable != nullptr; ++variable)
    if (path.empty() || !std::string_view(*variable).starts_with("PATH="))
      variables.push_back(*variable);
  if (!path.empty()) variables.push_back(own_path.data());
  variables.push_back(nullptr);
  pid_t child = -1;
  const int failed = ::posix_spawnp(&child, arguments[0], &actions_, &attributes_, arguments.data(),
                                    variables.data());
  if (failed != 0) return fail(system_error(failed, "cannot run " + words.front()));
  return child;
}

} // namespace uprobectl::process
