#include "inventory/holders.hpp"

#include "uprobectl/process.hpp"
#include "util/numbers.hpp"
#include "util/text.hpp"

#include <climits>
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace uprobectl {

namespace {

namespace fs = std::filesystem;

std::optional<std::string> link_text(const std::string& path) {
  std::string text(PATH_MAX, '\0');
  const ssize_t size = ::readlink(path.c_str(), text.data(), text.size());
  if (size < 0) return std::nullopt;
  text.resize(static_cast<std::size_t>(size));
  return text;
}

// The "link_id:" of a BPF link's fdinfo.
std::optional<std::uint32_t> link_id(const std::string& path) {
  std::ifstream file(path);
  constexpr std::string_view key = "link_id:";
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    return parse_number<std::uint32_t>(trimmed(std::string_view(line).substr(key.size())));
  }
  return std::nullopt;
}

void look_at(pid_t pid, Holders& holders) {
  const std::string process = "/proc/" + std::to_string(pid);
  std::error_code failure;
  fs::directory_iterator descriptor(process + "/fd", failure);
  if (failure && failure != std::errc::no_such_file_or_directory) ++holders.unreadable;
  for (; !failure && descriptor != fs::directory_iterator(); descriptor.increment(failure)) {
    const auto what = link_text(descriptor->path().string());
    if (!what) continue;
    const std::string number = descriptor->path().filename().string();
    if (what->starts_with("anon_inode:bpf_link") || what->starts_with("anon_inode:bpf-link")) {
      if (const auto id = link_id(process + "/fdinfo/" + number)) holders.links[*id].push_back(pid);
    } else if (*what == "anon_inode:[perf_event]") {
      auto probe = probe_of_perf_event(pid, std::atoi(number.c_str()));
      if (!probe) continue;
      probe->path = resolved_path(std::move(probe->path), pid);
      holders.perf_events.push_back({.holder = pid, .probe = std::move(*probe)});
    }
  }
}

} // namespace

std::string resolved_path(std::string path, pid_t process) {
  constexpr std::string_view own = "/proc/self/";
  if (!path.starts_with(own)) return path;
  auto found = link_text("/proc/" + std::to_string(process) + "/" + path.substr(own.size()));
  return found ? std::move(*found) : path;
}

Holders find_holders() {
  Holders holders;
  for (const pid_t pid : all_processes()) look_at(pid, holders);
  return holders;
}

} // namespace uprobectl
