// SPDX-License-Identifier: Apache-2.0
// What a command does while it writes nothing: a line on the terminal that messages and records
// replace.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace uprobectl::output {

class Output;
class Progress;

// The last line of a terminal: that of the innermost Progress, when it has taken longer than a
// second and nothing else was written for a second. Thread-safe.
class ProgressLine {
public:
  // Borrows the descriptor, which must be a terminal if `is_shown`.
  ProgressLine(int fd, bool is_shown) : fd_(fd), is_shown_(is_shown) {}
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine() = default;

  // Writes whole lines instead of it.
  void write(std::string_view lines);
  // Removes it, because something else is written to the terminal.
  void clear();

private:
  friend class Progress;
  using Clock = std::chrono::steady_clock;

  void begin(Progress& task);
  void end(const Progress& task);
  void run(const std::stop_token& stop);
  void draw();
  void clear_locked();

  const int fd_;
  const bool is_shown_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<Progress*> tasks_; // the innermost one last
  bool is_drawn_ = false;
  std::string drawn_;
  Clock::time_point written_; // when something else was last written
  std::jthread thread_;       // while there are tasks
};

// Shows "attaching probes: 250 of 1000, 3 s" while it exists, after the first second.
class Progress {
public:
  // `what`: a present participle, as in "attaching probes". `all`: how much there is to do, in this
  // unit (" MB"); 0 if that is not known.
  Progress(Output& output, std::string what, std::size_t all = 0, std::string_view unit = {});
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();

  void report(std::size_t done);

private:
  friend class ProgressLine;

  // "attaching probes: 250 of 1000"
  std::string text() const;

  Output& output_;
  const std::string what_;
  const std::size_t all_;
  const std::string_view unit_; // a literal
  std::atomic<std::size_t> done_ = 0;
  const ProgressLine::Clock::time_point start_ = ProgressLine::Clock::now();
  const bool is_recorded_; // a recorder shows it
};

} // namespace uprobectl::output
