// A folder of symbol files, as a build leaves it: any file in it may be the one.
#include "elf/debug_search.hpp"

#include <algorithm>
#include <dirent.h>
#include <fmt/format.h>
#include <sys/stat.h>

namespace uprobectl::elf {

namespace {

constexpr std::size_t most_entries = 20000; // files and folders; 20 µs each where they are opened
constexpr std::size_t most_levels = 16;

// The regular files below a folder by name; symbolic links to folders are not followed, so that the
// walk ends.
class Walk {
public:
  explicit Walk(const std::string& folder) { visit(folder, 0); }

  const std::vector<std::string>& files() const { return files_; }
  bool cut() const { return cut_; }

private:
  struct Close {
    void operator()(DIR* folder) const { ::closedir(folder); }
  };

  void visit(const std::string& folder, std::size_t level) {
    const std::unique_ptr<DIR, Close> handle(::opendir(folder.c_str()));
    if (!handle) return;
    std::vector<std::string> folders;
    const std::size_t first = files_.size();
    while (const dirent* entry = ::readdir(handle.get())) {
      const std::string_view name = entry->d_name;
      if (name == "." || name == "..") continue;
      if (++seen_ > most_entries) {
        cut_ = true;
        break;
      }
      const std::string path = folder + "/" + std::string(name);
      struct stat status{};
      if (::lstat(path.c_str(), &status) != 0) continue;
      if (S_ISDIR(status.st_mode)) folders.push_back(path);
      if (S_ISLNK(status.st_mode) && ::stat(path.c_str(), &status) != 0) continue;
      if (S_ISREG(status.st_mode)) files_.push_back(path);
    }
    // The order of a folder is the file system's; the answer must not be.
    std::sort(files_.begin() + static_cast<std::ptrdiff_t>(first), files_.end());
    std::ranges::sort(folders);
    for (const std::string& below : folders) {
      if (cut_) return;
      if (level == most_levels)
        cut_ = true;
      else
        visit(below, level + 1);
    }
  }

  std::vector<std::string> files_;
  std::size_t seen_ = 0;
  bool cut_ = false;
};

} // namespace

void DebugFileSearch::look_in_folder(const std::string& folder) {
  const Walk walk(folder);
  for (const bool same_name : {true, false}) {
    for (const std::string& path : walk.files()) {
      if (wanted_.is_name(file_name_of(path)) != same_name) continue;
      try_file(path, same_name ? Expected::by_name : Expected::maybe);
      if (done()) return;
    }
  }
  if (walk.cut())
    warnings_.push_back(
        fmt::format("{} was not searched whole: it has more than {} files or {} levels; name a "
                    "folder in it, or the symbol file",
                    folder, most_entries, most_levels));
}

} // namespace uprobectl::elf
