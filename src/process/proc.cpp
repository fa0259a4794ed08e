// SPDX-License-Identifier: Apache-2.0
#include "process/proc.hpp"

#include "uprobectl/process.hpp"
#include "util/clock.hpp"
#include "util/numbers.hpp"
#include "util/rooted_path.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <dirent.h>
#include <fcntl.h>
#include <set>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

namespace uprobectl::process {

std::string proc_path(pid_t pid, std::string_view name) {
  return "/proc/" + std::to_string(pid) + "/" + std::string(name);
}

pid_t find_live_thread(pid_t pid) {
  if (!has_thread_ended(pid, pid)) return pid;
  return find_other_thread(pid).value_or(pid);
}

std::string live_path(pid_t pid, std::string_view name) {
  return proc_path(find_live_thread(pid), name);
}

bool take_deleted_mark(std::string_view& path) {
  constexpr std::string_view mark = " (deleted)";
  if (!path.ends_with(mark)) return false;
  path.remove_suffix(mark.size());
  return true;
}

Result<std::string> read_pseudo_file(const std::string& path) {
  const UniqueFd fd{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY)};
  if (!fd) return fail(system_error(errno, path));
  std::string text;
  char chunk[16384];
  for (;;) {
    const ssize_t size = ::read(fd.get(), chunk, sizeof(chunk));
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return fail(system_error(errno, path));
    if (size == 0) return text;
    text.append(chunk, static_cast<std::size_t>(size));
  }
}

std::optional<std::string> try_read_pseudo_file(const std::string& path) {
  auto text = read_pseudo_file(path);
  if (!text) return std::nullopt;
  return std::move(*text);
}

namespace {

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

// The fields of a stat line after COMM: "S PPID …".
std::optional<std::string_view> fields_after_comm(std::string_view stat) {
  const auto comm_end = stat.rfind(')');
  if (comm_end == std::string_view::npos) return std::nullopt;
  stat.remove_prefix(comm_end + 1);
  if (!stat.starts_with(' ')) return std::nullopt;
  stat.remove_prefix(1);
  return stat;
}

// Returns the text after "KEY:\t". The kernel escapes newlines in Name, the only line with free
// text.
std::optional<std::string_view> find_status_line(std::string_view status, std::string_view key) {
  while (!status.empty()) {
    const std::string_view line = take_line(status);
    if (line.starts_with(key) && line.substr(key.size()).starts_with(":\t"))
      return line.substr(key.size() + 2);
  }
  return std::nullopt;
}

// Removes a number and the delimiter after it from the front of the line.
std::optional<std::uint64_t> take_field(std::string_view& line, char delimiter, int base) {
  const auto value = take_number<std::uint64_t>(line, base);
  if (!value || !line.starts_with(delimiter)) return std::nullopt;
  line.remove_prefix(1);
  return value;
}

// The kernel escapes only the newlines of a path, as \012 (seq_file mangling).
std::string unescape(std::string_view path) {
  std::string result;
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (path.substr(i, 4) == "\\012") {
      result += '\n';
      i += 3;
    } else {
      result += path[i];
    }
  }
  return result;
}

// "START-END PERMS OFFSET MAJOR:MINOR INODE          PATH"
std::optional<Mapping> parse_line(std::string_view line, MappingAccess& access) {
  Mapping mapping;
  const auto start = take_field(line, '-', 16);
  const auto end = start ? take_field(line, ' ', 16) : std::nullopt;
  if (!end || line.size() < 5 || line[4] != ' ') return std::nullopt;
  mapping.start = *start;
  mapping.end = *end;
  mapping.executable = line[2] == 'x';
  mapping.readable = line[0] == 'r';
  access = {.writable = line[1] == 'w', .shared = line[3] == 's'};
  line.remove_prefix(5);

  const auto offset = take_field(line, ' ', 16);
  const auto major = offset ? take_field(line, ':', 16) : std::nullopt;
  const auto minor = major ? take_field(line, ' ', 16) : std::nullopt;
  if (!minor) return std::nullopt;
  // Accept "0" at the end of the line: editors remove the blank after the inode of an anonymous
  // mapping.
  const auto inode = line == "0" ? std::optional<std::uint64_t>(0) : take_field(line, ' ', 10);
  if (!inode) return std::nullopt;
  if (*inode == 0 && line == "0") line = {};
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));

  mapping.deleted = take_deleted_mark(line);
  mapping.offset = {*offset};
  // st_dev in glibc's encoding, gnu_dev_makedev(3).
  mapping.identity = {((*major & 0xfffU) << 8) | ((*major & ~0xfffULL) << 32) | (*minor & 0xffU) |
                          ((*minor & ~0xffULL) << 12),
                      *inode};
  mapping.path = unescape(line);
  return mapping;
}

// Reads a file that is empty if the main thread has ended, and for threads of the kernel.
Result<std::string> read_memory_file(pid_t pid, std::string_view name) {
  auto text = read_pseudo_file(proc_path(pid, name));
  if (text && text->empty())
    if (const pid_t thread = find_live_thread(pid); thread != pid)
      return read_pseudo_file(proc_path(thread, name));
  return text;
}

Result<std::string> maps_text(pid_t pid) {
  auto text = read_memory_file(pid, "maps");
  if (text) return text;
  if (auto mounted = check_proc_mounted(); !mounted) return fail(std::move(mounted).error());
  if (text.error().kind == ErrorKind::not_permitted)
    return fail(std::move(text).error().hint(
        "needs CAP_SYS_PTRACE, or to be the user of the process with no fewer capabilities"));
  if (text.error().kind == ErrorKind::not_found)
    return fail(ErrorKind::not_found, "no process with pid " + std::to_string(pid));
  return text;
}

// Whether the file system reports another device in maps than in st_dev.
bool has_other_device_in_maps(const std::string& path) {
  constexpr std::uint32_t overlayfs = 0x794c7630; // OVERLAYFS_SUPER_MAGIC
  constexpr std::uint32_t btrfs = 0x9123683e;     // BTRFS_SUPER_MAGIC
  constexpr std::uint32_t bcachefs = 0xca451a4e;  // BCACHEFS_SUPER_MAGIC
  struct statfs status{};
  if (::statfs(path.c_str(), &status) != 0) return false;
  const auto type = static_cast<std::uint32_t>(status.f_type);
  return type == overlayfs || type == btrfs || type == bcachefs;
}

} // namespace

Result<void> check_proc_mounted() {
  // Only procfs has this link, which is the reader's pid in the namespace that it shows.
  if (const auto link = read_link("/proc/self"); link && parse_number<pid_t>(*link) == ::getpid())
    return {};
  return fail(
      Error{ErrorKind::not_found, "/proc is not mounted, or is that of another pid namespace"}.hint(
          "mount -t proc proc /proc"));
}

std::optional<std::uint64_t> process_start_time(pid_t pid) {
  const auto stat = try_read_pseudo_file(proc_path(pid, "stat"));
  const auto field = stat ? parse_start_time(*stat) : std::nullopt;
  return field ? std::optional(to_start_ticks(*field)) : std::nullopt;
}

std::optional<int> read_end_signal(int pidfd) {
  // struct pidfd_info of Linux include/uapi/linux/pidfd.h, as of its first version.
  struct {
    std::uint64_t mask;
    std::uint64_t cgroup;
    std::array<std::uint32_t, 11> ids;
    std::int32_t exit_code;
  } info{};
  constexpr std::uint64_t exit_info = 1 << 3; // PIDFD_INFO_EXIT
  info.mask = exit_info;
  constexpr auto request = _IOWR(0xFF, 11, decltype(info)); // PIDFD_GET_INFO
  if (::ioctl(pidfd, request, &info) != 0 || (info.mask & exit_info) == 0) return std::nullopt;
  return WIFSIGNALED(info.exit_code) ? WTERMSIG(info.exit_code) : 0;
}

std::vector<pid_t> all_processes() {
  std::vector<pid_t> result;
  const std::unique_ptr<DIR, CloseDirectory> directory{::opendir("/proc")};
  if (!directory) return result;
  while (const dirent* entry = ::readdir(directory.get())) {
    const std::string_view name = entry->d_name;
    if (const auto pid = parse_number<pid_t>(name)) result.push_back(*pid);
  }
  std::ranges::sort(result);
  return result;
}

std::optional<std::string> read_comm(pid_t pid) {
  auto text = read_pseudo_file(proc_path(pid, "comm"));
  if (!text) return std::nullopt;
  if (text->ends_with('\n')) text->pop_back();
  return std::move(*text);
}

std::string describe_process(pid_t pid) {
  const auto name = read_comm(pid);
  return "process " + std::to_string(pid) + (name ? " (" + *name + ")" : std::string());
}

std::optional<char> parse_state(std::string_view stat) {
  const auto fields = fields_after_comm(stat);
  if (!fields || fields->empty()) return std::nullopt;
  return fields->front();
}

bool has_thread_ended(pid_t pid, pid_t tid) {
  const auto stat = try_read_pseudo_file(proc_path(pid, "task/" + std::to_string(tid) + "/stat"));
  const auto state = stat ? parse_state(*stat) : std::nullopt;
  return !state || state == 'Z' || state == 'X';
}

std::optional<pid_t> find_other_thread(pid_t pid, const std::function<bool(pid_t)>& has_ended) {
  const std::string threads = proc_path(pid, "task");
  const std::unique_ptr<DIR, CloseDirectory> directory{::opendir(threads.c_str())};
  if (!directory) return std::nullopt;
  while (const dirent* entry = ::readdir(directory.get())) {
    const auto thread = parse_number<pid_t>(std::string_view(entry->d_name));
    if (!thread || *thread == pid || has_ended(*thread)) continue;
    if (!has_thread_ended(pid, *thread)) return thread;
  }
  return std::nullopt;
}

std::optional<pid_t> parse_parent(std::string_view stat) {
  auto fields = fields_after_comm(stat);
  // "S PPID "
  if (!fields || fields->size() < 3 || (*fields)[1] != ' ') return std::nullopt;
  fields->remove_prefix(2);
  const auto end = fields->find(' ');
  if (end == std::string_view::npos) return std::nullopt;
  return parse_number<pid_t>(fields->substr(0, end));
}

std::optional<std::uint64_t> parse_start_time(std::string_view stat) {
  auto fields = fields_after_comm(stat);
  if (!fields) return std::nullopt;
  for (int number = 3; number < 22; ++number) {
    const auto end = fields->find(' ');
    if (end == std::string_view::npos) return std::nullopt;
    fields->remove_prefix(end + 1);
  }
  return parse_number<std::uint64_t>(fields->substr(0, fields->find(' ')));
}

std::optional<uid_t> parse_user(std::string_view status) {
  const auto line = find_status_line(status, "Uid");
  return line ? parse_number<uid_t>(line->substr(0, line->find('\t'))) : std::nullopt;
}

std::optional<pid_t> parse_innermost_pid(std::string_view status) {
  const auto line = find_status_line(status, "NSpid");
  // npos + 1 is 0: the only number.
  return line ? parse_number<pid_t>(line->substr(line->rfind('\t') + 1)) : std::nullopt;
}

std::vector<pid_t> descendants(pid_t ancestor, std::span<const std::pair<pid_t, pid_t>> parents) {
  std::vector<std::pair<pid_t, pid_t>> children; // parent, child
  children.reserve(parents.size());
  for (const auto& [pid, parent] : parents) children.emplace_back(parent, pid);
  std::ranges::sort(children);
  // The parents are not read atomically: a reused pid can form a cycle, so visit each process once.
  std::set<pid_t> found;
  std::vector<pid_t> left = {ancestor};
  while (!left.empty()) {
    const pid_t parent = left.back();
    left.pop_back();
    for (const auto& [of, child] :
         std::ranges::equal_range(children, parent, {}, &std::pair<pid_t, pid_t>::first))
      if (child != ancestor && found.insert(child).second) left.push_back(child);
  }
  return {found.begin(), found.end()};
}

bool matches_process_name(std::string_view name, std::string_view comm,
                          std::string_view arguments) {
  if (name.empty()) return false;
  const std::string_view program = arguments.substr(0, arguments.find('\0'));
  return name == comm || name == program || name == program.substr(program.rfind('/') + 1);
}

bool is_process_named(pid_t pid, std::string_view name) {
  const auto comm = read_comm(pid);
  if (!comm) return false;
  if (matches_process_name(name, *comm, {})) return true;
  const auto arguments = read_memory_file(pid, "cmdline");
  return arguments && matches_process_name(name, *comm, *arguments);
}

std::vector<pid_t> find_named_processes(std::string_view name) {
  std::vector<pid_t> result = all_processes();
  std::erase_if(result, [&](pid_t pid) { return !is_process_named(pid, name); });
  return result;
}

std::vector<pid_t> find_descendants(pid_t pid) {
  std::vector<std::pair<pid_t, pid_t>> parents;
  for (const pid_t process : all_processes()) {
    const auto stat = try_read_pseudo_file(proc_path(process, "stat"));
    const auto parent = stat ? parse_parent(*stat) : std::nullopt;
    if (parent) parents.emplace_back(process, *parent);
  }
  return descendants(pid, parents);
}

std::optional<uid_t> process_user(pid_t pid) {
  const auto status = try_read_pseudo_file(proc_path(pid, "status"));
  return status ? parse_user(*status) : std::nullopt;
}

std::vector<pid_t> find_user_processes(uid_t user) {
  std::vector<pid_t> result = all_processes();
  std::erase_if(result, [&](pid_t pid) { return process_user(pid) != user; });
  return result;
}

std::optional<pid_t> pid_in_namespace(pid_t pid) {
  const auto status = try_read_pseudo_file(proc_path(pid, "status"));
  return status ? parse_innermost_pid(*status) : std::nullopt;
}

std::optional<FileIdentity> process_executable(pid_t pid) {
  struct stat status{};
  if (::stat(proc_path(pid, "exe").c_str(), &status) != 0 &&
      ::stat(live_path(pid, "exe").c_str(), &status) != 0)
    return std::nullopt;
  return FileIdentity{status.st_dev, status.st_ino};
}

std::optional<std::string> read_mount_namespace(pid_t pid) {
  return read_link(live_path(pid, "ns/mnt"));
}

namespace {

std::vector<Mapping> parse_with_access(std::string_view text, std::vector<MappingAccess>& access) {
  std::vector<Mapping> result;
  while (!text.empty()) {
    MappingAccess own;
    auto mapping = parse_line(take_line(text), own);
    if (!mapping) continue;
    result.push_back(std::move(*mapping));
    access.push_back(own);
  }
  return result;
}

} // namespace

std::vector<Mapping> parse_maps(std::string_view text) {
  std::vector<Mapping> mappings = parse_all_maps(text);
  std::erase_if(mappings, [](const Mapping& mapping) {
    return mapping.identity.inode == 0 || mapping.path.empty();
  });
  return mappings;
}

std::vector<Mapping> parse_all_maps(std::string_view text) {
  std::vector<MappingAccess> access;
  return parse_with_access(text, access);
}

Result<std::vector<Mapping>> read_mappings(pid_t pid) {
  const auto text = maps_text(pid);
  if (!text) return fail(text.error());
  return parse_maps(*text);
}

Result<std::vector<Mapping>> read_all_mappings(pid_t pid) {
  std::vector<MappingAccess> access;
  return read_all_mappings(pid, access);
}

Result<std::vector<Mapping>> read_all_mappings(pid_t pid, std::vector<MappingAccess>& access) {
  const auto text = maps_text(pid);
  if (!text) return fail(text.error());
  return parse_with_access(*text, access);
}

std::optional<bool> shares_mount_namespace(pid_t pid) {
  static const auto own = read_mount_namespace(::getpid());
  const auto other = read_mount_namespace(pid);
  if (!own || !other) return std::nullopt;
  return *own == *other;
}

FileMatch match_file(const FileIdentity& file, const Mapping& mapping) {
  if (mapping.identity.inode == 0 || file.inode != mapping.identity.inode) return FileMatch::none;
  return file.device == mapping.identity.device ? FileMatch::device_and_inode : FileMatch::inode;
}

FileMatch match_file_at(const std::string& path, const Mapping& mapping) {
  const auto status = stat_path(path);
  if (!status || !S_ISREG(status->st_mode)) return FileMatch::none;
  return match_file({status->st_dev, status->st_ino}, mapping);
}

std::string map_files_path(pid_t pid, const Mapping& mapping) {
  constexpr std::string_view digits = "0123456789abcdef";
  const auto hex = [&](std::uint64_t number) {
    std::string text;
    do {
      text.insert(text.begin(), digits[number & 0xf]);
      number >>= 4;
    } while (number != 0);
    return text;
  };
  return live_path(pid, "map_files/" + hex(mapping.start) + "-" + hex(mapping.end));
}

std::vector<PathCandidate> path_candidates(pid_t pid, const Mapping& mapping,
                                           std::optional<bool> shared) {
  const std::string in_root = live_path(pid, "root") + mapping.path;
  std::vector<PathCandidate> ways = {{in_root, FileMatch::device_and_inode},
                                     {mapping.path, FileMatch::device_and_inode}};
  ways.push_back({in_root, FileMatch::inode});
  if (shared.value_or(false) || (!shared && has_other_device_in_maps(mapping.path)))
    ways.push_back({mapping.path, FileMatch::inode});
  return ways;
}

bool is_reachable_by_path(const Mapping& mapping) {
  if (mapping.deleted) return false;
  const FileMatch match = match_file_at(mapping.path, mapping);
  return match == FileMatch::device_and_inode ||
         (match == FileMatch::inode && has_other_device_in_maps(mapping.path));
}

} // namespace uprobectl::process
