// SPDX-License-Identifier: Apache-2.0
#include "host/adb.hpp"

#include "process/child.hpp"
#include "util/ignored_signals.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace uprobectl::host {

namespace {

using namespace std::chrono_literals;

constexpr std::array interrupting = {SIGINT, SIGTERM, SIGHUP};
constinit std::atomic<int> interrupt_count = 0;
std::array<struct sigaction, interrupting.size()> old_actions;

void on_interrupt(int) { interrupt_count.fetch_add(1); }

std::optional<std::string> find_in_path(std::string_view name) {
  const char* const path = std::getenv("PATH");
  std::string_view rest = path == nullptr ? "" : path;
  while (!rest.empty()) {
    const auto colon = std::min(rest.find(':'), rest.size());
    std::string candidate = fmt::format("{}/{}", rest.substr(0, colon), name);
    if (colon > 0 && ::access(candidate.c_str(), X_OK) == 0) return candidate;
    rest.remove_prefix(std::min(colon + 1, rest.size()));
  }
  return std::nullopt;
}

} // namespace

Interrupts::Interrupts() {
  interrupt_count.store(0);
  struct sigaction action{};
  action.sa_handler = on_interrupt;
  for (std::size_t i = 0; i < interrupting.size(); ++i) {
    ::sigaction(interrupting[i], nullptr, &old_actions[i]);
    // nohup and background jobs of a shell ignore signals on purpose.
    if (old_actions[i].sa_handler != SIG_IGN) ::sigaction(interrupting[i], &action, nullptr);
  }
}

Interrupts::~Interrupts() {
  for (std::size_t i = 0; i < interrupting.size(); ++i)
    ::sigaction(interrupting[i], &old_actions[i], nullptr);
}

int Interrupts::count() { return interrupt_count.load(); }

Result<std::string> find_adb() {
  const auto missing = [](const std::string& what) {
    return fail(Error{ErrorKind::not_found, what}
                    .hint("install the platform tools of Android (Debian: apt install adb)")
                    .hint("or name the client: ADB=/path/to/adb uprobectl …"));
  };
  const char* const named = std::getenv("ADB");
  if (named != nullptr && *named != '\0') {
    if (::access(named, X_OK) != 0)
      return missing(system_error(errno, fmt::format("$ADB: {}", named)).message);
    return std::string(named);
  }
  if (auto found = find_in_path("adb")) return std::move(*found);
  return missing("no program 'adb' in PATH");
}

Result<AdbProcess> AdbProcess::start(const std::vector<std::string>& words, Inherited inherited) {
  auto in = process::make_pipe();
  auto out = process::make_pipe();
  auto err = process::make_pipe();
  if (!in || !out || !err) return fail(!in ? in.error() : !out ? out.error() : err.error());
  std::vector<char*> arguments; // posix_spawn takes char* but does not modify the strings
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);

  std::vector<char*> variables;
  for (char** each = environ; *each != nullptr; ++each) variables.push_back(*each);
  if (!inherited.variable.empty()) variables.push_back(inherited.variable.data());
  variables.push_back(nullptr);

  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_adddup2(&files, in->read_end.get(), STDIN_FILENO);
  if (!inherited.own_stdout)
    ::posix_spawn_file_actions_adddup2(&files, out->write_end.get(), STDOUT_FILENO);
  if (!inherited.own_stderr)
    ::posix_spawn_file_actions_adddup2(&files, err->write_end.get(), STDERR_FILENO);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  const sigset_t defaults = ignored_signal_set();
  ::posix_spawnattr_setsigdefault(&attributes, &defaults);
  ::posix_spawnattr_setpgroup(&attributes, inherited.own_group ? ::getpgrp() : 0);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
  pid_t pid = -1;
  const int errnum = ::posix_spawn(&pid, words.front().c_str(), &files, &attributes,
                                   arguments.data(), variables.data());
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&files);
  if (errnum != 0) return fail(system_error(errnum, "cannot start " + words.front()));
  return AdbProcess(pid, std::move(in->write_end), std::move(out->read_end),
                    std::move(err->read_end));
}

AdbProcess::AdbProcess(AdbProcess&& other) noexcept
    : input(std::move(other.input)), output(std::move(other.output)),
      errors(std::move(other.errors)), pid_(std::exchange(other.pid_, -1)) {}

AdbProcess::~AdbProcess() { finish(0ms); }

int AdbProcess::finish(std::chrono::milliseconds timeout) {
  if (pid_ < 0) return 0;
  auto end = process::wait_for(pid_, timeout);
  if (!end) {
    ::kill(pid_, SIGKILL);
    end = process::wait_for(pid_);
  }
  pid_ = -1;
  return end ? end->shell_status() : 0;
}

Result<process::CommandResult> run_adb(const std::vector<std::string>& words,
                                       std::chrono::milliseconds timeout) {
  const auto begin = std::chrono::steady_clock::now();
  auto result = process::run_command(words, timeout, [] { return Interrupts::count() > 0; });
  if (!result && std::chrono::steady_clock::now() - begin >= timeout)
    return fail(std::move(result).error().hint("restart the server: adb kill-server"));
  return result;
}

// "SERIAL<tab>STATE" for each device, below a title; "* daemon …" while the server starts (AOSP
// packages/modules/adb/transport.cpp, append_transport). States may have blanks.
std::vector<ListedDevice> parse_devices(std::string_view text) {
  std::vector<ListedDevice> devices;
  while (!text.empty()) {
    const std::string_view line = trimmed(take_line(text), "\r");
    const auto tab = line.find('\t');
    if (tab == std::string_view::npos || tab == 0) continue;
    devices.push_back({std::string(line.substr(0, tab)), std::string(line.substr(tab + 1))});
  }
  return devices;
}

Result<std::vector<ListedDevice>> list_devices(const std::string& adb) {
  auto listed = run_adb({adb, "devices"}, 30s);
  if (!listed) return fail(std::move(listed).error());
  if (listed->exit_code != 0)
    return fail(ErrorKind::io, fmt::format("'adb devices' failed: {}", first_line(listed->errors)));
  return parse_devices(listed->output);
}

Result<DeviceSelection> parse_selection(std::string_view text) {
  DeviceSelection selection;
  if (text.empty()) return selection;
  if (text == "all") {
    selection.all = true;
    return selection;
  }
  for (;;) {
    const auto comma = std::min(text.find(','), text.size());
    std::string serial(text.substr(0, comma));
    if (serial.empty() || serial == "all" || serial.starts_with('-') ||
        std::ranges::find(selection.serials, serial) != selection.serials.end())
      return fail(
          ErrorKind::usage,
          fmt::format("invalid device '{}' for --adb (expected a serial number once)", serial));
    selection.serials.push_back(std::move(serial));
    if (comma == text.size()) return selection;
    text.remove_prefix(comma + 1);
  }
}

namespace {

std::string describe(const std::vector<ListedDevice>& devices) {
  std::vector<std::string> texts;
  for (const ListedDevice& device : devices)
    texts.push_back(device.state == "device" ? device.serial
                                             : fmt::format("{} ({})", device.serial, device.state));
  return fmt::format("{}", fmt::join(texts, ", "));
}

} // namespace

Result<std::vector<ListedDevice>> select_devices(const DeviceSelection& selection,
                                                 std::vector<ListedDevice> listed,
                                                 std::string_view android_serial) {
  std::vector<std::string> wanted = selection.serials;
  if (!selection.all && wanted.empty() && !android_serial.empty())
    wanted.emplace_back(android_serial);
  if (wanted.empty()) {
    if (listed.empty())
      return fail(Error{ErrorKind::not_found, "adb knows no device"}.hint(
          "connect one and enable USB debugging, or: adb connect HOST:PORT"));
    if (selection.all) return listed;
    const auto is_usable = [](const ListedDevice& each) { return each.state == "device"; };
    const auto usable = std::ranges::count_if(listed, is_usable);
    if (usable > 1)
      return fail(Error{ErrorKind::ambiguous,
                        fmt::format("{} devices: {}", listed.size(), describe(listed))}
                      .hint(fmt::format("choose one: --adb={}", listed.front().serial))
                      .hint("or run on all of them: --adb=all"));
    if (usable == 1) return std::vector{*std::ranges::find_if(listed, is_usable)};
    return listed; // their states say why they cannot be used
  }
  std::vector<ListedDevice> selected;
  for (const std::string& serial : wanted) {
    const auto found = std::ranges::find(listed, serial, &ListedDevice::serial);
    if (found == listed.end()) {
      Error error{ErrorKind::not_found, fmt::format("adb knows no device '{}'", serial)};
      if (!listed.empty()) error.hints.push_back("connected: " + describe(listed));
      return fail(std::move(error));
    }
    selected.push_back(*found);
  }
  return selected;
}

} // namespace uprobectl::host
