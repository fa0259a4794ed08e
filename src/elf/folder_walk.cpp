// SPDX-License-Identifier: Apache-2.0
#include "elf/folder_walk.hpp"

#include <algorithm>
#include <dirent.h>
#include <memory>
#include <string_view>
#include <sys/stat.h>

namespace uprobectl::elf {

namespace {

struct Close {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

} // namespace

void FolderWalk::visit(const std::string& folder, std::size_t level) {
  const std::unique_ptr<DIR, Close> handle(::opendir(folder.c_str()));
  if (!handle) return;
  std::vector<std::string> folders;
  const std::size_t first = files_.size();
  while (const dirent* entry = ::readdir(handle.get())) {
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (++seen_ > max_walked) {
      truncated_ = true;
      break;
    }
    const std::string path = folder + "/" + std::string(name);
    struct stat status{};
    if (::lstat(path.c_str(), &status) != 0) continue;
    if (S_ISDIR(status.st_mode)) folders.push_back(path);
    if (S_ISLNK(status.st_mode) && ::stat(path.c_str(), &status) != 0) continue;
    if (S_ISREG(status.st_mode)) files_.push_back(path);
  }
  // Sorted, because the order of readdir() depends on the file system.
  std::sort(files_.begin() + static_cast<std::ptrdiff_t>(first), files_.end());
  std::ranges::sort(folders);
  for (const std::string& below : folders) {
    if (truncated_) return;
    if (level == max_levels)
      truncated_ = true;
    else
      visit(below, level + 1);
  }
}

} // namespace uprobectl::elf
