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

// Unlike run_command(), ends the command after a Ctrl-C that another thread has received. One
// before it has ended the capture, whose stacks are named now.
Result<CommandResult> run_beside_devices(std::vector<std::string> words,
                                         std::chrono::milliseconds timeout) {
  auto program = host::find_in_path(words.front());
  if (!program) return fail(ErrorKind::not_found, words.front() + " is not installed");
  words.front() = std::move(*program);
  auto result = host::run_to_end(words, timeout, host::Interrupts::count());
  if (!result) return fail(std::move(result).error());
  return CommandResult{.output = std::move(result->output),
                       .errors = std::move(result->errors),
                       .exit_code = result->status};
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
    : output_(-1, output), client_(download_timeout, run_beside_devices) {}

host::InputFile DeviceDownloads::find(const std::string& asked) {
  const auto colon = asked.find(':');
  const auto path = colon == std::string::npos
                        ? client_.find_debug_file(asked)
                        : client_.find_source(asked.substr(0, colon), asked.substr(colon + 1));
  host::InputFile file{.errnum = ENOENT};
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
