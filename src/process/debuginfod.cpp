// SPDX-License-Identifier: Apache-2.0
#include "process/debuginfod.hpp"

#include "process/command.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>

namespace uprobectl::process {

namespace {

constexpr const char* find_program = "debuginfod-find"; // in PATH

bool is_build_id(std::string_view text) {
  return text.size() >= 2 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

} // namespace

Result<std::string> DebuginfodClient::find_debug_file(const std::string& build_id,
                                                      const IsInterrupted& is_interrupted) {
  if (!is_build_id(build_id))
    return fail(ErrorKind::not_found, fmt::format("'{}' is not a build id", build_id));
  return find({find_program, "debuginfo", build_id}, is_interrupted);
}

Result<std::string> DebuginfodClient::find_source(const std::string& build_id,
                                                  const std::string& path,
                                                  const IsInterrupted& is_interrupted) {
  if (!is_build_id(build_id) || !path.starts_with('/'))
    return fail(ErrorKind::not_found, fmt::format("'{}' is not an absolute path", path));
  return find({find_program, "source", build_id, path}, is_interrupted);
}

Result<std::string> DebuginfodClient::find(std::vector<std::string> words,
                                           const IsInterrupted& is_interrupted) {
  // Another thread's download may take long.
  std::unique_lock lock(mutex_, std::defer_lock);
  while (!lock.try_lock_for(std::chrono::milliseconds(100)))
    if (is_interrupted && is_interrupted()) return fail(ErrorKind::interrupted, "interrupted");
  if (const auto known = results_.find(words); known != results_.end()) return known->second;
  if (unusable_) return fail(*unusable_);
  auto result = ask(words, is_interrupted);
  if (!result && is_interrupted && is_interrupted()) return result;
  results_.emplace(std::move(words), result);
  return result;
}

Result<std::string> DebuginfodClient::ask(const std::vector<std::string>& words,
                                          const IsInterrupted& is_interrupted) {
  const auto begin = std::chrono::steady_clock::now();
  auto result = run_command(words, left_, is_interrupted);
  const auto taken = std::chrono::steady_clock::now() - begin;
  left_ -= std::min(left_, std::chrono::duration_cast<std::chrono::milliseconds>(taken));
  if (!result && is_interrupted && is_interrupted()) return fail(std::move(result).error());
  if (!result) {
    // debuginfod-find is not installed, is too slow, or was interrupted: the next request would end
    // in the same way.
    unusable_ = result.error().kind == ErrorKind::not_found
                    ? Error{ErrorKind::not_found, "debuginfod-find is not installed"}.hint(
                          "install it (on Debian: apt install debuginfod)")
                    : std::move(result).error();
    return fail(*unusable_);
  }
  const std::string_view path = first_line(result->output);
  if (result->exit_code == 0 && path.starts_with('/')) return std::string(path);
  std::string message = fmt::format("debuginfod-find has no {} for build id {}",
                                    words[1] == "source" ? words[3] : "debug file", words[2]);
  if (const std::string_view reason = first_line(result->errors); !reason.empty())
    message += fmt::format(": {}", reason);
  Error error{ErrorKind::not_found, std::move(message)};
  const char* const servers = std::getenv("DEBUGINFOD_URLS");
  if (servers == nullptr || *servers == '\0')
    error = std::move(error).hint("DEBUGINFOD_URLS names no servers");
  return fail(std::move(error));
}

} // namespace uprobectl::process
