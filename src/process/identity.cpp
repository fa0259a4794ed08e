#include "process/pseudo_file.hpp"
#include "process/status.hpp"
#include "uprobectl/process.hpp"

#include <array>
#include <sys/stat.h>
#include <unistd.h>

namespace uprobectl {

namespace {

std::optional<std::string> namespace_link(const std::string& path) {
  std::array<char, 64> name{};
  const ssize_t size = ::readlink(path.c_str(), name.data(), name.size());
  if (size <= 0) return std::nullopt;
  return std::string(name.data(), static_cast<std::size_t>(size));
}

} // namespace

bool goes_by_name(std::string_view name, std::string_view comm, std::string_view arguments) {
  if (name.empty()) return false;
  const std::string_view program = arguments.substr(0, arguments.find('\0'));
  return name == comm || name == program || name == program.substr(program.rfind('/') + 1);
}

bool is_named(pid_t pid, std::string_view name) {
  const auto comm = command_name(pid);
  if (!comm) return false;
  if (goes_by_name(name, *comm, {})) return true;
  const auto arguments = pseudo_file_text(proc_path(pid, "cmdline"));
  return arguments && goes_by_name(name, *comm, *arguments);
}

std::vector<pid_t> processes_named(std::string_view name) {
  std::vector<pid_t> result = all_processes();
  std::erase_if(result, [&](pid_t pid) { return !is_named(pid, name); });
  return result;
}

std::vector<pid_t> descendants_of(pid_t pid) {
  std::vector<std::pair<pid_t, pid_t>> parents;
  for (const pid_t process : all_processes()) {
    const auto stat = pseudo_file_text(proc_path(process, "stat"));
    const auto parent = stat ? parse_parent(*stat) : std::nullopt;
    if (parent) parents.emplace_back(process, *parent);
  }
  return descendants(pid, parents);
}

std::optional<uid_t> user_of(pid_t pid) {
  const auto status = pseudo_file_text(proc_path(pid, "status"));
  return status ? parse_user(*status) : std::nullopt;
}

std::vector<pid_t> processes_of_user(uid_t user) {
  std::vector<pid_t> result = all_processes();
  std::erase_if(result, [&](pid_t pid) { return user_of(pid) != user; });
  return result;
}

std::optional<pid_t> pid_in_namespace(pid_t pid) {
  const auto status = pseudo_file_text(proc_path(pid, "status"));
  return status ? parse_innermost_pid(*status) : std::nullopt;
}

std::optional<FileIdentity> executable_of(pid_t pid) {
  struct stat status{};
  if (::stat(proc_path(pid, "exe").c_str(), &status) != 0) return std::nullopt;
  return FileIdentity{status.st_dev, status.st_ino};
}

std::optional<std::string> mount_namespace_of(pid_t pid) {
  return namespace_link(proc_path(pid, "ns/mnt"));
}

// Linux include/linux/proc_ns.h: PROC_PID_INIT_INO, 0xEFFFFFFC.
bool in_initial_pid_namespace() {
  return namespace_link("/proc/self/ns/pid") == "pid:[4026531836]";
}

} // namespace uprobectl
