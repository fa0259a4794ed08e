// SPDX-License-Identifier: Apache-2.0
#include "debuginfod.hpp"

#include "elf/debug_file.hpp"
#include "host/adb.hpp"
#include "util/made_inputs.hpp"
#include "util/rooted_path.hpp"
#include "util/user_files.hpp"

#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>

namespace uprobectl::cli {

namespace {

// For all downloads of a command.
constexpr std::chrono::minutes download_timeout{5};

std::string describe_failure(const Error& error) {
  std::string message = "--debuginfod: " + error.message;
  for (const std::string& hint : error.hints) message += "; " + hint;
  return message;
}

} // namespace

Debuginfod::Debuginfod(bool is_wanted, Output& output)
    : is_wanted_(is_wanted), output_(output), client_(download_timeout) {
  if (is_wanted)
    elf::set_debug_fetcher(
        [this](const std::string& build_id) { return find_debug_file(build_id); });
}

Debuginfod::~Debuginfod() {
  if (is_wanted_) elf::set_debug_fetcher(nullptr);
}

std::optional<std::string> Debuginfod::find_debug_file(const std::string& build_id) {
  const std::string there = std::string(downloaded_prefix) + build_id;
  if (workstation_with(there) != nullptr) return ask_workstation(there);
  return reported(client_.find_debug_file(build_id));
}

std::optional<std::string> Debuginfod::ask_workstation(const std::string& path) {
  // Where there is none, the workstation has said why.
  const UniqueFd file = open_user_file(path, O_RDONLY | O_CLOEXEC);
  return file ? std::optional(path) : std::nullopt;
}

std::optional<std::string> Debuginfod::reported(const Result<std::string>& path) {
  if (path) {
    output_.detail("--debuginfod: found " + *path);
    return *path;
  }
  output_.warn_once(describe_failure(path.error()));
  return std::nullopt;
}

std::optional<std::string> Debuginfod::find_source(const std::optional<std::string>& build_id,
                                                   const std::string& path) {
  if (!is_wanted_ || !build_id) return std::nullopt;
  const std::string there = std::string(downloaded_prefix) + *build_id + ":" + path;
  if (workstation_with(there) != nullptr) return ask_workstation(there);
  auto found = reported(client_.find_source(*build_id, path));
  if (!found) return std::nullopt;
  const auto status = stat_path(*found);
  return status && S_ISREG(status->st_mode) ? found : std::nullopt;
}

DeviceDownloads::DeviceDownloads(const OutputOptions& output)
    : output_(-1, output), client_(download_timeout) {}

host::InputFile DeviceDownloads::find(const std::string& asked, const IsInterrupted& is_abandoned) {
  // An earlier Ctrl-C has ended the capture, whose stacks are named now.
  const auto is_interrupted = [&, before = host::Interrupts::count()] {
    if (host::Interrupts::count() > before) is_interrupted_ = true;
    return is_interrupted_ || is_abandoned();
  };
  const auto colon = asked.find(':');
  const auto path =
      colon == std::string::npos
          ? client_.find_debug_file(asked, is_interrupted)
          : client_.find_source(asked.substr(0, colon), asked.substr(colon + 1), is_interrupted);
  host::InputFile file{.errnum = ENOENT};
  if (is_abandoned()) return file;
  if (path) file = host::read_input(*path);
  const std::scoped_lock lock(mutex_);
  if (!path)
    output_.warn_once(describe_failure(path.error()));
  else if (file.errnum != 0)
    output_.warn_once("--debuginfod: " + system_error(file.errnum, *path).message);
  else
    output_.detail("--debuginfod: found " + *path);
  return file;
}

} // namespace uprobectl::cli
