// The files that a running process maps.
#pragma once

#include "uprobectl/unwind.hpp"

namespace uprobectl::stacks {

// Opened by path where the file there is the mapped one, first as this program sees it, so that
// debug files and DEX files beside it are found when the process has ended; else in the process's
// root folder; else by its mapping (/proc/PID/map_files, which leads to deleted files, too).
class LiveFiles final : public FileSource {
public:
  explicit LiveFiles(pid_t pid);

  Result<MappedObject> open(const Mapping& mapping) override;

private:
  pid_t pid_;
  std::optional<bool> shares_mounts_; // as long as the process lived it could be asked
};

} // namespace uprobectl::stacks
