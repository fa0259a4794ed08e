// SPDX-License-Identifier: Apache-2.0
// A command of the system that runs beside this process.
#pragma once

#include "process/child.hpp"

#include <string_view>

namespace uprobectl::process {

// It gets SIGTERM when this process ends, however that ends. The destructor kills it.
class BackgroundCommand {
public:
  static constexpr std::size_t max_input = 4096;

  // Starts a program from the directory of Android's commands if it is there, else from PATH,
  // without a shell. `input` is its stdin; its stdout is dropped. `temporary`: a file and then the
  // folder that was made for it, if one was, which are removed if this process ends before the
  // command. Errors: not_found for a program that does not exist, usage for an input of more than
  // max_input bytes.
  static Result<BackgroundCommand> start(std::vector<std::string> words, std::string_view input,
                                         const std::vector<std::string>& temporary);

  BackgroundCommand(BackgroundCommand&& other) noexcept;
  BackgroundCommand& operator=(BackgroundCommand&& other) = delete;
  ~BackgroundCommand();

  // Returns how it has ended; nullopt while it runs.
  std::optional<ChildEnd> find_end();
  // Returns what the command has written to stderr, at most the last 4096 bytes.
  std::string read_errors() const;
  void terminate() const; // sends SIGTERM
  // Sends SIGTERM, and waits. Returns nullopt if it still runs after the timeout; it is then
  // killed.
  std::optional<ChildEnd> end(std::chrono::milliseconds timeout);

private:
  BackgroundCommand(pid_t pid, UniqueFd errors) : pid_(pid), errors_(std::move(errors)) {}
  void start_guard(const std::vector<std::string>& temporary);
  void end_guard();

  pid_t pid_; // -1: reaped, or moved from
  std::optional<ChildEnd> end_;
  UniqueFd errors_;  // a file in memory
  pid_t guard_ = -1; // sends the SIGTERM when lifeline_ is closed
  UniqueFd lifeline_;
};

} // namespace uprobectl::process
