// SPDX-License-Identifier: Apache-2.0
// Downloads debug files and sources by build id with debuginfod-find (elfutils).
#pragma once

#include "process/command.hpp"
#include "uprobectl/util.hpp"

#include <chrono>
#include <map>
#include <mutex>
#include <vector>

namespace uprobectl::process {

// Runs debuginfod-find from PATH, which asks the servers in DEBUGINFOD_URLS and keeps what it
// downloads in its cache. Thread-safe.
class DebuginfodClient {
public:
  // `timeout` is for all requests together.
  explicit DebuginfodClient(std::chrono::milliseconds timeout) : left_(timeout) {}

  // Returns the path of the debug file with the build id (hexadecimal digits). It is not checked.
  // Fails with not_found if there is none, or the program is not installed; with interrupted if
  // is_interrupted() says so. Each request is made once, unless it was interrupted in this way.
  Result<std::string> find_debug_file(const std::string& build_id,
                                      const IsInterrupted& is_interrupted = {});
  // Finds the source file that the debug file names by this absolute path.
  Result<std::string> find_source(const std::string& build_id, const std::string& path,
                                  const IsInterrupted& is_interrupted = {});

private:
  Result<std::string> find(std::vector<std::string> words, const IsInterrupted& is_interrupted);
  Result<std::string> ask(const std::vector<std::string>& words,
                          const IsInterrupted& is_interrupted);

  std::timed_mutex mutex_;
  std::chrono::milliseconds left_;
  std::optional<Error> unusable_; // why no more requests are made
  std::map<std::vector<std::string>, Result<std::string>> results_;
};

} // namespace uprobectl::process
