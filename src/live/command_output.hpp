// SPDX-License-Identifier: Apache-2.0
// What a command prints while a live view has the terminal: its last lines are kept.
#pragma once

#include "uprobectl/util.hpp"

#include <deque>
#include <string>

namespace uprobectl::live {

class CommandLines {
public:
  static constexpr std::size_t max_lines = 200;
  static constexpr std::size_t max_line_bytes = 1000;

  static Result<CommandLines> open();

  int write_fd() const { return write_end_.get(); } // for stdout and stderr of the command
  int read_fd() const { return read_end_.get(); }
  // Reads what waits, but not for long.
  void read();
  const std::deque<std::string>& lines() const { return lines_; }
  std::uint64_t omitted() const { return omitted_; } // lines before them

private:
  CommandLines(UniqueFd read_end, UniqueFd write_end)
      : read_end_(std::move(read_end)), write_end_(std::move(write_end)) {}
  void add(std::string_view bytes);

  UniqueFd read_end_;
  UniqueFd write_end_;
  std::deque<std::string> lines_;
  std::uint64_t omitted_ = 0;
  bool is_in_line_ = false; // the last line may go on
};

} // namespace uprobectl::live
