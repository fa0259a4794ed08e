// SPDX-License-Identifier: Apache-2.0
// What a command prints while a live view has the terminal: its last lines are kept.
#pragma once

#include "uprobectl/util.hpp"

#include <array>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace uprobectl::live {

// The last lines, and how many were before them.
struct LastLines {
  std::deque<std::string> lines;
  std::uint64_t omitted = 0;
};

// Reads in a thread of its own, so that the command never waits for us: not while probes are
// detached, nor when it prints much after SIGTERM.
class CommandLines {
public:
  static constexpr std::size_t max_lines = 200;
  static constexpr std::size_t max_line_bytes = 1000;

  static Result<std::unique_ptr<CommandLines>> open();
  CommandLines(const CommandLines&) = delete;
  CommandLines& operator=(const CommandLines&) = delete;
  ~CommandLines();

  int write_fd() const { return write_end_.get(); } // for stdout and stderr of the command
  // Reads what waits, but not for long.
  LastLines last();

private:
  CommandLines(UniqueFd read_end, UniqueFd write_end, UniqueFd stop, UniqueFd discarder);
  void work();
  void read();
  void add(std::string_view bytes);

  UniqueFd read_end_;
  UniqueFd write_end_;
  UniqueFd stop_;      // readable when the thread is to end
  UniqueFd discarder_; // while it is open, the process that reads after us waits
  std::mutex mutex_;
  LastLines last_;
  bool is_in_line_ = false; // the last line may go on
  std::array<char, 64 << 10> chunk_{};
  std::thread thread_;
};

} // namespace uprobectl::live
