#include "base/rooted_path.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace uprobectl {

namespace {

// -1 and errno where it cannot be had.
int open_below(int folder, const std::string& path) {
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_IN_ROOT;
  return static_cast<int>(::syscall(SYS_openat2, folder, path.c_str(), &how, sizeof(how)));
}

bool is_same_file(int fd, const std::string& path) {
  struct stat one{};
  struct stat other{};
  return ::fstat(fd, &one) == 0 && ::stat(path.c_str(), &other) == 0 &&
         one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

} // namespace

Result<std::string> path_in_root(const std::string& root, const std::string& path) {
  const auto entry = std::min(path.find("!/"), path.size());
  const std::string file = path.substr(0, entry);
  const UniqueFd folder(::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder) return fail(system_error(errno, root));
  const UniqueFd found(open_below(folder.get(), file));
  // A sandbox refuses calls that it does not know as not permitted.
  if (!found && errno != ENOSYS && errno != EPERM) return fail(system_error(errno, root + file));
  // Most paths lead there without links that matter, and are easier to recognize as they are.
  if (!found || is_same_file(found.get(), root + file)) return root + path;
  std::array<char, 4096> place{};
  const std::string link = "/proc/self/fd/" + std::to_string(found.get());
  const auto length = ::readlink(link.c_str(), place.data(), place.size());
  if (length <= 0 || static_cast<std::size_t>(length) == place.size()) return root + path;
  return std::string(place.data(), static_cast<std::size_t>(length)) + path.substr(entry);
}

} // namespace uprobectl
