// SPDX-License-Identifier: Apache-2.0
#include "output/progress.hpp"

#include "output/format.hpp"
#include "output/output.hpp"
#include "util/descriptor_io.hpp"

#include <algorithm>
#include <csignal>
#include <fmt/format.h>

namespace uprobectl::output {

namespace {

constexpr std::chrono::seconds min_quiet_time{1}; // since the beginning and the last lines
constexpr std::chrono::milliseconds draw_interval{200};

// Drops the text if no terminal takes it.
void write_lines(int fd, std::string_view text) {
  static_cast<void>(write_all(fd, as_bytes(text)));
}

// Blocks the signals of a new thread: another thread waits for them. Does not block SIGTTOU, which
// stops a process in the background that writes to the terminal (stty tostop).
class SignalsBlocked {
public:
  SignalsBlocked() {
    sigset_t blocked;
    sigfillset(&blocked);
    sigdelset(&blocked, SIGTTOU);
    ::pthread_sigmask(SIG_SETMASK, &blocked, &before_);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

private:
  sigset_t before_{};
};

} // namespace

void ProgressLine::write(std::string_view lines) {
  const std::scoped_lock lock(mutex_);
  clear_locked();
  written_ = Clock::now();
  write_lines(fd_, lines); // at once, so that lines of several processes are not mixed
}

void ProgressLine::clear() {
  if (!is_shown_) return;
  const std::scoped_lock lock(mutex_);
  clear_locked();
  written_ = Clock::now();
}

void ProgressLine::clear_locked() {
  if (std::exchange(is_drawn_, false)) write_lines(fd_, "\r\x1b[K");
}

void ProgressLine::draw() {
  const Progress& task = *tasks_.back();
  const auto now = Clock::now();
  const auto passed = now - task.start_;
  if (passed < min_quiet_time || now - written_ < min_quiet_time) return;
  std::string text = "\r"; // start of the line; the rest of it is cleared below
  append_printable(text, task.text());
  text += fmt::format(", {} s\x1b[K", std::chrono::floor<std::chrono::seconds>(passed).count());
  if (is_drawn_ && text == drawn_) return;
  write_lines(fd_, text);
  drawn_ = std::move(text);
  is_drawn_ = true;
}

void ProgressLine::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    if (!tasks_.empty()) draw();
    changed_.wait_for(lock, stop, draw_interval, [] { return false; });
  }
}

void ProgressLine::begin(Progress& task) {
  if (!is_shown_) return;
  const std::scoped_lock lock(mutex_);
  tasks_.push_back(&task);
  if (thread_.joinable()) return;
  const SignalsBlocked blocked;
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

void ProgressLine::end(const Progress& task) {
  if (!is_shown_) return;
  std::jthread ended; // joined when the mutex is free again
  const std::scoped_lock lock(mutex_);
  std::erase(tasks_, &task);
  clear_locked();
  if (tasks_.empty()) ended = std::exchange(thread_, {});
}

Progress::Progress(Output& output, std::string what, std::size_t all, std::string_view unit)
    : output_(output), what_(std::move(what)), all_(all), unit_(unit),
      is_recorded_(output.show_in_recorder(what_)) {
  if (!is_recorded_) output_.progress_line().begin(*this);
}

Progress::~Progress() {
  if (is_recorded_)
    output_.show_in_recorder({});
  else
    output_.progress_line().end(*this);
}

void Progress::report(std::size_t done) {
  constexpr std::size_t step = 10;
  done_.store(done, std::memory_order_relaxed);
  if (is_recorded_ && done % step == 0) output_.show_in_recorder(text());
}

std::string Progress::text() const {
  if (all_ == 0) return what_;
  return fmt::format("{}: {} of {}{}", what_, std::min(done_.load(std::memory_order_relaxed), all_),
                     all_, unit_);
}

} // namespace uprobectl::output
