#include "process/pseudo_file.hpp"
#include "process/status.hpp"
#include "uprobectl/process.hpp"

#include <algorithm>
#include <charconv>
#include <dirent.h>
#include <unistd.h>

namespace uprobectl {

namespace {

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

} // namespace

Result<void> check_proc_mounted() {
  // Any other file system has no such link.
  if (char link = 0; ::readlink("/proc/self", &link, sizeof(link)) > 0) return {};
  return fail(
      Error{ErrorKind::not_found, "/proc is not mounted, or for another PID namespace"}.hint(
          "mount -t proc proc /proc"));
}

namespace {

Result<std::string> maps_text(pid_t pid) {
  auto text = read_pseudo_file(proc_path(pid, "maps"));
  if (text) return text;
  if (auto mounted = check_proc_mounted(); !mounted) return fail(std::move(mounted).error());
  if (text.error().kind == ErrorKind::not_permitted)
    return fail(std::move(text).error().hint(
        "needs CAP_SYS_PTRACE, or to be the user of the process with no fewer capabilities"));
  if (text.error().kind == ErrorKind::not_found)
    return fail(ErrorKind::not_found, "no process with pid " + std::to_string(pid));
  return text;
}

} // namespace

Result<std::vector<Mapping>> mappings_of(pid_t pid) {
  const auto text = maps_text(pid);
  if (!text) return fail(text.error());
  return parse_maps(*text);
}

Result<std::vector<Mapping>> all_mappings_of(pid_t pid) {
  const auto text = maps_text(pid);
  if (!text) return fail(text.error());
  return parse_all_maps(*text);
}

std::optional<std::uint64_t> start_time_of(pid_t pid) {
  const auto stat = pseudo_file_text(proc_path(pid, "stat"));
  return stat ? parse_start_time(*stat) : std::nullopt;
}

std::vector<pid_t> all_processes() {
  std::vector<pid_t> result;
  const std::unique_ptr<DIR, CloseDirectory> directory{::opendir("/proc")};
  if (!directory) return result;
  while (const dirent* entry = ::readdir(directory.get())) {
    const std::string_view name = entry->d_name;
    pid_t pid = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error == std::errc() && end == name.data() + name.size()) result.push_back(pid);
  }
  std::ranges::sort(result);
  return result;
}

std::optional<std::string> command_name(pid_t pid) {
  auto text = read_pseudo_file(proc_path(pid, "comm"));
  if (!text) return std::nullopt;
  if (text->ends_with('\n')) text->pop_back();
  return std::move(*text);
}

} // namespace uprobectl
