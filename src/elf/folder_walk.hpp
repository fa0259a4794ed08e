// SPDX-License-Identifier: Apache-2.0
// The files below a folder that a user names because it has symbol files.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace uprobectl::elf {

// Collects the regular files below a folder, sorted by name. Does not follow symbolic links to
// folders, which may form loops.
class FolderWalk {
public:
  static constexpr std::size_t max_walked = 20000; // files and folders; opening one takes 20 µs
  static constexpr std::size_t max_levels = 16;

  explicit FolderWalk(const std::string& folder) { visit(folder, 0); }

  const std::vector<std::string>& files() const { return files_; }
  bool truncated() const { return truncated_; }

private:
  void visit(const std::string& folder, std::size_t level);

  std::vector<std::string> files_;
  std::size_t seen_ = 0;
  bool truncated_ = false;
};

} // namespace uprobectl::elf
