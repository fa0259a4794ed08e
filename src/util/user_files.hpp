// SPDX-License-Identifier: Apache-2.0
// Opens the files that the user names in options. They are on this machine, unless `uprobectl
// --adb` has started the run: then they are on the user's workstation.
#pragma once

#include "uprobectl/util.hpp"

#include <sys/types.h>

namespace uprobectl {

// The workstation of the user, as a run on a device sees it. All functions set errno on failure.
class Workstation {
public:
  virtual ~Workstation() = default;

  // Whether this path, as the user has typed it, or a path below it is a file of the workstation.
  virtual bool has(const std::string& path) const = 0;
  // As open(2): for reading (a regular file at its beginning) or for writing (a pipe).
  virtual UniqueFd open(const std::string& path, int flags, mode_t mode) = 0;
  virtual bool make_folder(const std::string& path, mode_t mode) = 0;
  virtual bool exists(const std::string& path) = 0;
  virtual bool remove_folder(const std::string& path) = 0;
  // Whether fd, which is stdout or stderr, ends at a terminal.
  virtual bool is_terminal(int fd) const = 0;
  // The options with which the user runs commands on this machine: "--adb=SERIAL".
  virtual std::string command_options() const { return {}; }
};

// Called once, before the run begins. The workstation must outlive the run.
void set_workstation(Workstation& workstation);
// Returns the workstation if the path names one of its files, else nullptr.
Workstation* workstation_with(const std::string& path);

// Returns Workstation::command_options(); empty without a workstation.
std::string workstation_command_options();

// open(2), mkdir(2), access(2), isatty(3) and removal of a folder with its files, on the machine
// that the path refers to. All set errno on failure.
UniqueFd open_user_file(const std::string& path, int flags, mode_t mode = 0);
bool make_user_folder(const std::string& path, mode_t mode);
bool user_file_exists(const std::string& path);
bool remove_user_folder(const std::string& path);
bool is_user_terminal(int fd);

} // namespace uprobectl
