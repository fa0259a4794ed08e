// SPDX-License-Identifier: Apache-2.0
// Downloads debug files and sources by build id with debuginfod-find (elfutils).
#pragma once

#include "process/command.hpp"
#include "uprobectl/util.hpp"

#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <vector>

namespace uprobectl {

// Runs debuginfod-find from PATH, which asks the servers in DEBUGINFOD_URLS and keeps what it
// downloads in its cache. Thread-safe.
class DebuginfodClient {
public:
  // Runs a command as run_command() does.
  using Runner = std::function<Result<CommandResult>(const std::vector<std::string>& words,
                                                     std::chrono::milliseconds timeout)>;

  // `timeout` is for all questions together.
  explicit DebuginfodClient(std::chrono::milliseconds timeout, Runner runner = run_command)
      : runner_(std::move(runner)), left_(timeout) {}

  // Returns the path of the debug file with the build id (hexadecimal digits). It is not checked.
  // Fails with not_found if there is none, or the program is not installed. Each question is asked
  // once.
  Result<std::string> find_debug_file(const std::string& build_id);
  // Same, of a source file that the debug file names by this absolute path.
  Result<std::string> find_source(const std::string& build_id, const std::string& path);

private:
  Result<std::string> find(std::vector<std::string> words);
  Result<std::string> ask(const std::vector<std::string>& words);

  Runner runner_;
  std::mutex mutex_;
  std::chrono::milliseconds left_;
  std::optional<Error> unusable_; // why no more questions are asked
  std::map<std::vector<std::string>, Result<std::string>> answers_;
};

} // namespace uprobectl
