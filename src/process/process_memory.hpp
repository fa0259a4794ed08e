// SPDX-License-Identifier: Apache-2.0
// Reads the memory of another process.
#pragma once

#include "uprobectl/util.hpp"

#include <span>
#include <sys/types.h>

namespace uprobectl::process {

// The memory of a process at the time of each call. Reads through /proc/PID/mem, which also reads
// memory that is only executable.
class ProcessMemory {
public:
  explicit ProcessMemory(pid_t pid);

  // Whether this user may read it. True if the process has ended.
  bool is_permitted() const { return permitted_; }
  // Fills the bytes. Returns false if the memory is not there, for example because the process has
  // ended.
  bool read(std::uint64_t address, std::span<std::byte> bytes) const;

private:
  void open(const std::string& path);

  UniqueFd fd_;
  bool permitted_ = true;
};

} // namespace uprobectl::process
