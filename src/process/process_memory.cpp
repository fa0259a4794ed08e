// SPDX-License-Identifier: Apache-2.0
#include "process/process_memory.hpp"

#include "process/proc.hpp"

#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

namespace uprobectl::process {

ProcessMemory::ProcessMemory(pid_t pid) {
  open(proc_path(pid, "mem"));
  // The memory of a main thread that has ended is gone, that of the others is not.
  std::byte byte{};
  const bool is_gone = fd_ ? ::pread(fd_.get(), &byte, 1, 0) == 0 : permitted_;
  if (!is_gone) return;
  if (const auto thread = find_other_thread(pid))
    open(proc_path(pid, "task/" + std::to_string(*thread) + "/mem"));
}

void ProcessMemory::open(const std::string& path) {
  fd_ = UniqueFd{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  permitted_ = fd_ || (errno != EACCES && errno != EPERM);
}

bool ProcessMemory::read(std::uint64_t address, std::span<std::byte> bytes) const {
  return fd_ && ::pread(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(address)) ==
                    static_cast<ssize_t>(bytes.size());
}

} // namespace uprobectl::process
