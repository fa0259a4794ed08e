// SPDX-License-Identifier: Apache-2.0
#include "util/rooted_path.hpp"

#include "util/text.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <fcntl.h>
#include <filesystem>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace uprobectl {

namespace {

constexpr int max_links = 40; // MAXSYMLINKS of Linux include/linux/namei.h

// Removes the first component from a path, with the slashes around it, and returns it.
std::string_view take_part(std::string_view& path) {
  path.remove_prefix(std::min(path.find_first_not_of('/'), path.size()));
  const auto end = std::min(path.find('/'), path.size());
  const std::string_view part = path.substr(0, end);
  path.remove_prefix(end);
  path.remove_prefix(std::min(path.find_first_not_of('/'), path.size()));
  return part;
}

// Reads a symbolic link that is open with O_PATH. Returns an errno value if it fails. Magic links
// of /proc (to open files) are rejected with EXDEV: their text is not the path of their target.
std::expected<std::string, int> link_text(int fd) {
  std::array<char, 4096> text{};
  const auto length = ::readlinkat(fd, "", text.data(), text.size());
  if (length < 0) return std::unexpected(errno);
  if (static_cast<std::size_t>(length) == text.size()) return std::unexpected(ENAMETOOLONG);
  std::string target(text.data(), static_cast<std::size_t>(length));
  struct statfs status{};
  if (::fstatfs(fd, &status) != 0) return std::unexpected(errno);
  const bool may_be_magic = status.f_type == PROC_SUPER_MAGIC &&
                            (target.starts_with('/') || target.find(':') != std::string::npos);
  if (may_be_magic) return std::unexpected(EXDEV);
  return target;
}

// Follows a path below a root folder, component by component.
class RootWalk {
public:
  explicit RootWalk(int root) : root_(root) {}

  std::expected<RootedFile, int> to(std::string_view path) {
    std::string rest(path);
    bool must_be_folder = path.ends_with('/');
    while (true) {
      std::string_view left = rest;
      const std::string part(take_part(left));
      if (part.empty()) break;
      std::string next(left);
      if (const int failed = step(part, next, must_be_folder); failed != 0)
        return std::unexpected(failed);
      rest = std::move(next);
    }
    if (must_be_folder && !is_folder(here())) return std::unexpected(ENOTDIR);
    return finish();
  }

private:
  struct Level {
    UniqueFd fd;
    std::string name;
  };

  int here() const { return levels_.empty() ? root_ : levels_.back().fd.get(); }

  static bool is_folder(int fd) {
    struct stat status{};
    return ::fstat(fd, &status) == 0 && S_ISDIR(status.st_mode);
  }

  // Enters the component. For a symbolic link its text is inserted before the rest of the path.
  // Returns 0 or an errno value.
  int step(const std::string& part, std::string& rest, bool& must_be_folder) {
    if (!is_folder(here())) return ENOTDIR;
    if (part == ".") return 0;
    if (part == "..") {
      if (!levels_.empty()) levels_.pop_back();
      return 0;
    }
    UniqueFd fd{::openat(here(), part.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC)};
    if (!fd) return errno;
    struct stat status{};
    if (::fstat(fd.get(), &status) != 0) return errno;
    if (!S_ISLNK(status.st_mode)) {
      levels_.push_back({.fd = std::move(fd), .name = part});
      return 0;
    }
    if (++links_ > max_links) return ELOOP;
    auto target = link_text(fd.get());
    if (!target) return target.error();
    if (target->empty()) return ENOENT;
    if (target->starts_with('/')) levels_.clear();
    if (rest.empty())
      must_be_folder = must_be_folder || target->ends_with('/');
    else
      target->append("/").append(rest);
    if (target->size() > std::size_t{64} << 10) return ENAMETOOLONG;
    rest = std::move(*target);
    return 0;
  }

  std::expected<RootedFile, int> finish() {
    RootedFile walked;
    for (const Level& level : levels_) walked.path.append("/").append(level.name);
    if (levels_.empty()) {
      walked.path = "/";
      walked.file = UniqueFd{::fcntl(root_, F_DUPFD_CLOEXEC, 0)};
      if (!walked.file) return std::unexpected(errno);
      return walked;
    }
    walked.file = std::move(levels_.back().fd);
    return walked;
  }

  int root_;
  std::vector<Level> levels_;
  int links_ = 0;
};

// Returns -1 and sets errno if it fails.
int open_below(int root, const std::string& path, int flags) {
  open_how how{};
  how.flags = static_cast<std::uint64_t>(flags);
  how.resolve = RESOLVE_IN_ROOT;
  return static_cast<int>(::syscall(SYS_openat2, root, path.c_str(), &how, sizeof(how)));
}

UniqueFd open_folder(const std::string& path) {
  return UniqueFd(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
}

// Opens with O_PATH. Sets errno if it fails.
UniqueFd open_in(const RootedPath& rooted) {
  const UniqueFd root = open_folder(rooted.root);
  if (!root) return {};
  UniqueFd found{open_below(root.get(), rooted.path, O_PATH | O_CLOEXEC)};
  // EPERM: seccomp filters may reject unknown system calls. EAGAIN: a folder was renamed while the
  // kernel followed "..".
  if (found || (errno != ENOSYS && errno != EPERM && errno != EAGAIN)) return found;
  auto walked = walk_in_root(root.get(), rooted.path);
  if (walked) return std::move(walked->file);
  errno = walked.error();
  return {};
}

UniqueFd open_any(const std::string& path) {
  if (const auto rooted = split_process_root(path)) return open_in(*rooted);
  return UniqueFd(::open(path.c_str(), O_PATH | O_CLOEXEC));
}

Error open_error(int errnum, const std::string& path) {
  if (errnum == EXDEV)
    return {ErrorKind::not_permitted,
            path + ": a link of /proc in this path leads out of the process's root folder"};
  return system_error(errnum, path);
}

bool is_same_file(int fd, const std::string& path) {
  struct stat one{};
  struct stat other{};
  return ::fstat(fd, &one) == 0 && ::stat(path.c_str(), &other) == 0 &&
         one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

} // namespace

std::optional<RootedPath> split_process_root(std::string_view path) {
  if (!path.starts_with('/')) return std::nullopt;
  std::string_view rest = path;
  if (take_part(rest) != "proc") return std::nullopt;
  const std::string_view process = take_part(rest);
  if (!has_only_digits(process) && process != "self" && process != "thread-self")
    return std::nullopt;
  std::string root = "/proc/" + std::string(process);
  std::string_view part = take_part(rest);
  if (part == "task") {
    const std::string_view thread = take_part(rest);
    if (!has_only_digits(thread)) return std::nullopt;
    root += "/task/" + std::string(thread);
    part = take_part(rest);
  }
  if (part != "root") return std::nullopt;
  const bool is_folder = path.ends_with('/') && !rest.empty();
  std::string below = "/" + std::string(rest);
  if (is_folder && !below.ends_with('/')) below += '/';
  return RootedPath{.root = root + "/root", .path = std::move(below)};
}

Result<UniqueFd> open_path(const std::string& path) {
  UniqueFd fd = open_any(path);
  if (!fd) return fail(open_error(errno, path));
  return fd;
}

std::expected<struct stat, int> stat_path(const std::string& path) {
  struct stat status{};
  if (!split_process_root(path)) {
    if (::stat(path.c_str(), &status) != 0) return std::unexpected(errno);
    return status;
  }
  const UniqueFd fd = open_any(path);
  if (!fd || ::fstat(fd.get(), &status) != 0) return std::unexpected(errno);
  return status;
}

bool is_regular_file(const std::string& path) {
  const auto status = stat_path(path);
  return status && S_ISREG(status->st_mode);
}

bool is_folder(const std::string& path) {
  const auto status = stat_path(path);
  return status && S_ISDIR(status->st_mode);
}

Result<RegularFile> open_regular_file(const std::string& path) {
  constexpr int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  const UniqueFd found = open_any(path);
  if (!found) return fail(open_error(errno, path));
  RegularFile file{};
  if (::fstat(found.get(), &file.status) != 0) return fail(system_error(errno, path));
  if (S_ISDIR(file.status.st_mode))
    return fail(ErrorKind::io, path + ": is a directory, not a file");
  if (!S_ISREG(file.status.st_mode)) return fail(ErrorKind::io, path + ": not a regular file");

  const std::string link = "/proc/self/fd/" + std::to_string(found.get());
  file.fd = UniqueFd(::open(link.c_str(), flags));
  // Without /proc the path is opened a second time, and checked again below.
  if (!file.fd && (errno == ENOENT || errno == EACCES) && !split_process_root(path))
    file.fd = UniqueFd(::open(path.c_str(), flags));
  if (!file.fd) return fail(system_error(errno, path));
  const struct stat before = file.status;
  if (::fstat(file.fd.get(), &file.status) != 0) return fail(system_error(errno, path));
  if (file.status.st_dev != before.st_dev || file.status.st_ino != before.st_ino)
    return fail(ErrorKind::io, path + ": replaced while it was being opened");
  return file;
}

std::expected<RootedFile, int> walk_in_root(int root, std::string_view path) {
  return RootWalk(root).to(path);
}

Result<std::string> real_path_in_root(const RootedPath& rooted) {
  const UniqueFd folder = open_folder(rooted.root);
  if (!folder) return fail(system_error(errno, rooted.root));
  const auto walked = walk_in_root(folder.get(), rooted.path);
  if (!walked) return fail(open_error(walked.error(), rooted.root + rooted.path));
  return rooted.root + walked->path;
}

std::vector<std::string> list_folder(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code failure;
  for (std::filesystem::directory_iterator each(folder, failure), end; !failure && each != end;
       each.increment(failure))
    names.push_back(each->path().filename().string());
  std::ranges::sort(names);
  return names;
}

std::optional<std::string> read_link(const std::string& path) {
  std::array<char, PATH_MAX> text{};
  const ssize_t size = ::readlink(path.c_str(), text.data(), text.size());
  if (size < 0) return std::nullopt;
  return std::string(text.data(), static_cast<std::size_t>(size));
}

Result<std::string> read_descriptor_path(int fd) {
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  auto path = read_link(link);
  if (!path) return fail(system_error(errno, link));
  return std::move(*path);
}

Result<std::string> find_in_root(const std::string& root, const std::string& path) {
  const auto entry = std::min(path.find("!/"), path.size());
  const std::string file = path.substr(0, entry);
  const UniqueFd folder = open_folder(root);
  if (!folder) return fail(system_error(errno, root));
  const auto walked = walk_in_root(folder.get(), file);
  if (!walked) return fail(open_error(walked.error(), root + file));
  // Keep the path as typed if it refers to the same file: users recognize it.
  if (is_same_file(walked->file.get(), root + file)) return root + path;
  return (root == "/" ? "" : root) + walked->path + path.substr(entry);
}

} // namespace uprobectl
