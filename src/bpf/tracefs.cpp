// SPDX-License-Identifier: Apache-2.0
#include "bpf/tracefs.hpp"

#include "util/clock.hpp"
#include "util/numbers.hpp"

#include <cerrno>
#include <csignal>
#include <fstream>
#include <iterator>
#include <sys/stat.h>
#include <unistd.h>

namespace uprobectl::bpf {

namespace {

constexpr std::string_view group_prefix = "uprobectl_";

bool has_uprobe_events(const std::string& folder) {
  return ::access((folder + "/uprobe_events").c_str(), F_OK) == 0;
}

// "DEVICE POINT TYPE OPTIONS 0 0": tracefs itself, or debugfs with tracefs in its folder `tracing`.
std::optional<std::string> mounted_tracefs() {
  std::ifstream mounts("/proc/self/mounts");
  std::string device, point, type, rest;
  while (mounts >> device >> point >> type && std::getline(mounts, rest)) {
    if (type == "debugfs") point += "/tracing";
    if ((type == "tracefs" || type == "debugfs") && has_uprobe_events(point)) return point;
  }
  return std::nullopt;
}

// Field 3 follows the name, which is in parentheses and may contain anything (proc_pid_stat(5)).
std::uint64_t read_start_time(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  std::size_t at = text.rfind(") ");
  if (at == std::string::npos) return 0;
  at += 2;
  for (int field = 3; field < 22; ++field) {
    at = text.find(' ', at);
    if (at == std::string::npos) return 0;
    ++at;
  }
  std::string_view rest = std::string_view(text).substr(at);
  const auto field = take_number<std::uint64_t>(rest);
  return field ? to_start_ticks(*field) : 0;
}

std::uint64_t own_pid_namespace() {
  struct stat status{};
  return ::stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

template <typename T>
bool take_part(std::string_view& text, T& value) {
  const auto number = take_number<T>(text);
  if (number) value = *number;
  return number.has_value();
}

bool take_underscore(std::string_view& text) {
  if (!text.starts_with('_')) return false;
  text.remove_prefix(1);
  return true;
}

} // namespace

bool is_switched_off(const std::string& path) {
  std::ifstream file(path);
  return file.get() == '0';
}

std::optional<std::string> find_tracefs() {
  for (const std::string folder : {"/sys/kernel/tracing", "/sys/kernel/debug/tracing"})
    if (has_uprobe_events(folder)) return folder;
  return mounted_tracefs();
}

EventOwner EventOwner::self() {
  return {.pid_namespace = own_pid_namespace(),
          .pid = ::getpid(),
          .start_time = read_start_time(::getpid())};
}

std::optional<EventOwner> EventOwner::parse_group(std::string_view group) {
  if (!group.starts_with(group_prefix)) return std::nullopt;
  group.remove_prefix(group_prefix.size());
  EventOwner owner;
  if (take_part(group, owner.pid_namespace) && take_underscore(group) &&
      take_part(group, owner.pid) && take_underscore(group) && take_part(group, owner.start_time) &&
      group.empty() && owner.pid > 0)
    return owner;
  return std::nullopt;
}

std::string EventOwner::group() const {
  return std::string(group_prefix) + std::to_string(pid_namespace) + "_" + std::to_string(pid) +
         "_" + std::to_string(start_time);
}

bool EventOwner::has_ended() const {
  if (pid_namespace != own_pid_namespace()) return false;
  const std::uint64_t started = read_start_time(pid);
  return started != 0 ? started != start_time : ::kill(pid, 0) != 0 && errno == ESRCH;
}

} // namespace uprobectl::bpf
