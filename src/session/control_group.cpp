#include "session/control_group.hpp"

#include "process/pseudo_file.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <fcntl.h>
#include <filesystem>
#include <linux/magic.h>
#include <sys/vfs.h>

namespace uprobectl {

namespace {

// Takes the first word away; fields are separated by one space.
std::string_view take_field(std::string_view& line) {
  const auto end = std::min(line.find(' '), line.size());
  const std::string_view field = line.substr(0, end);
  line.remove_prefix(std::min(end + 1, line.size()));
  return field;
}

// Blanks and backslashes are written in octal: "\040".
std::string unescaped(std::string_view field) {
  constexpr std::size_t digits = 3;
  std::string text;
  while (!field.empty()) {
    unsigned value = 0;
    if (field.front() == '\\' && field.size() > digits &&
        std::from_chars(field.data() + 1, field.data() + 1 + digits, value, 8).ptr ==
            field.data() + 1 + digits) {
      text.push_back(static_cast<char>(value));
      field.remove_prefix(1 + digits);
    } else {
      text.push_back(field.front());
      field.remove_prefix(1);
    }
  }
  return text;
}

void add_pids(const std::string& file, std::vector<pid_t>& pids) {
  const auto text = read_pseudo_file(file);
  if (!text) return; // the group has gone meanwhile
  std::string_view rest = *text;
  while (!rest.empty()) {
    const auto end = std::min(rest.find('\n'), rest.size());
    pid_t pid = 0;
    // 0 stands for processes of other pid namespaces.
    if (std::from_chars(rest.data(), rest.data() + end, pid).ec == std::errc() && pid > 0)
      pids.push_back(pid);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

Result<std::string> full_path(std::string_view path) {
  if (path.starts_with('/')) return std::string(path);
  const auto mounts = read_pseudo_file("/proc/self/mountinfo");
  if (!mounts) return fail(mounts.error());
  const auto mount = cgroup2_mount(*mounts);
  if (!mount)
    return fail(Error{ErrorKind::unsupported, "cgroup2 is not mounted"}.hint(
        "mount it with: mount -t cgroup2 none /sys/fs/cgroup"));
  return *mount + "/" + std::string(path);
}

} // namespace

// "36 35 0:31 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw": the mount point is the
// fifth field, the type follows the lone dash.
std::optional<std::string> cgroup2_mount(std::string_view mountinfo) {
  while (!mountinfo.empty()) {
    const auto end = std::min(mountinfo.find('\n'), mountinfo.size());
    std::string_view line = mountinfo.substr(0, end);
    mountinfo.remove_prefix(std::min(end + 1, mountinfo.size()));
    for (int i = 0; i < 4; ++i) take_field(line);
    const std::string_view point = take_field(line);
    while (!line.empty() && take_field(line) != "-") {
    }
    if (take_field(line) == "cgroup2") return unescaped(point);
  }
  return std::nullopt;
}

Result<ControlGroup> ControlGroup::open(std::string_view path) {
  auto full = full_path(path);
  if (!full) return fail(std::move(full).error());
  UniqueFd fd{::open(full->c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (!fd && errno == ENOTDIR)
    return fail(ErrorKind::usage, *full + " is no folder, and so no control group");
  if (!fd) return fail(system_error(errno, "cannot open the control group " + *full));
  struct statfs status{};
  if (::fstatfs(fd.get(), &status) != 0)
    return fail(system_error(errno, "cannot look at " + *full));
  if (status.f_type != CGROUP2_SUPER_MAGIC)
    return fail(Error{ErrorKind::usage, *full + " is no control group of cgroup2"}
                    .hint("--cgroup takes a folder of a cgroup2 mount, or its path from there on")
                    .hint("which one a process is in stands in /proc/PID/cgroup, behind 0::/"));
  return ControlGroup(std::move(fd), std::move(*full));
}

std::vector<pid_t> ControlGroup::processes() const {
  std::vector<pid_t> pids;
  add_pids(path_ + "/cgroup.procs", pids);
  std::error_code error;
  for (auto at = std::filesystem::recursive_directory_iterator(path_, error);
       !error && at != std::filesystem::recursive_directory_iterator(); at.increment(error))
    if (at->is_directory(error)) add_pids(at->path().string() + "/cgroup.procs", pids);
  std::ranges::sort(pids);
  pids.erase(std::ranges::unique(pids).begin(), pids.end());
  return pids;
}

} // namespace uprobectl
