// SPDX-License-Identifier: Apache-2.0
#include "debuginfod.hpp"

#include "elf/debug_file.hpp"
#include "util/rooted_path.hpp"

#include <sys/stat.h>

namespace uprobectl::cli {

namespace {

// For all downloads of a command.
constexpr std::chrono::minutes download_timeout{5};

} // namespace

Debuginfod::Debuginfod(bool is_wanted, Output& output)
    : is_wanted_(is_wanted), output_(output), client_(download_timeout) {
  if (is_wanted)
    elf::set_debug_fetcher([this](const std::string& build_id) {
      return reported(client_.find_debug_file(build_id));
    });
}

Debuginfod::~Debuginfod() {
  if (is_wanted_) elf::set_debug_fetcher(nullptr);
}

std::optional<std::string> Debuginfod::reported(const Result<std::string>& path) {
  if (path) {
    output_.detail("--debuginfod: found " + *path);
    return *path;
  }
  std::string message = "--debuginfod: " + path.error().message;
  for (const std::string& hint : path.error().hints) message += "; " + hint;
  output_.warn_once(message);
  return std::nullopt;
}

std::optional<std::string> Debuginfod::find_source(const std::optional<std::string>& build_id,
                                                   const std::string& path) {
  if (!is_wanted_ || !build_id) return std::nullopt;
  auto found = reported(client_.find_source(*build_id, path));
  if (!found) return std::nullopt;
  const auto status = stat_path(*found);
  return status && S_ISREG(status->st_mode) ? found : std::nullopt;
}

} // namespace uprobectl::cli
