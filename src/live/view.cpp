// SPDX-License-Identifier: Apache-2.0
#include "live/view.hpp"

#include "util/clock.hpp"
#include "util/descriptor_io.hpp"

#include <cerrno>
#include <csignal>
#include <ctime>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

namespace uprobectl::live {

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds draw_interval = 200ms;
// After a longer gap the program was stopped, and the terminal may have been used by others.
constexpr std::chrono::milliseconds max_gap = 2s;
constexpr std::size_t max_messages = 500;
constexpr int max_names = 100; // of files, in a second

output::OutputOptions without_records(output::OutputOptions options) {
  options.only_recorded = true;
  options.hides_recorded_messages = false;
  options.workstation = &this_machine();
  return options;
}

// "uprobectl-live-20261201-120102"
std::string file_stem() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  return fmt::format("uprobectl-live-{:04}{:02}{:02}-{:02}{:02}{:02}", local.tm_year + 1900,
                     local.tm_mon + 1, local.tm_mday, local.tm_hour, local.tm_min, local.tm_sec);
}

// A terminal may be stopped, or gone.
constexpr std::chrono::milliseconds write_timeout = 1s;

} // namespace

Result<std::unique_ptr<View>> View::make(ViewRequest request) {
  std::unique_ptr<CommandLines> command;
  if (request.has_command) {
    auto opened = CommandLines::open();
    if (!opened) return fail(std::move(opened).error());
    command = std::move(*opened);
  }
  return std::unique_ptr<View>(new View(std::move(request), std::move(command)));
}

View::View(ViewRequest request, std::unique_ptr<CommandLines> command)
    : request_(std::move(request)), command_(std::move(command)),
      messages_(STDOUT_FILENO, without_records(request_.messages)),
      model_(request_.hits_are_counted) {}

View::~View() { close(); }

void View::set_time(std::uint64_t time_ns) {
  clock_difference_ns_ = static_cast<std::int64_t>(time_ns - clock_ns(CLOCK_MONOTONIC));
}

// The records of a device come late, and its clock is another one.
std::uint64_t View::now_ns() const {
  return clock_ns(CLOCK_MONOTONIC) + static_cast<std::uint64_t>(clock_difference_ns_);
}

void View::take(const output::AttachedRecord& record) {
  if (!std::exchange(is_attached_, true)) model_.begin(record.clocks);
  set_time(record.clocks.monotonic_ns);
}

void View::take(const output::ClockRecord& record) {
  model_.set_clocks(record.clocks);
  set_time(record.clocks.monotonic_ns);
  has_ended_ = has_ended_ || record.at_end;
}

void View::take(const output::SummaryRecord& record) {
  has_ended_ = true;
  model_.end_after(record.duration_ns);
}

// Detaching takes up to minutes, which are not a part of the run.
void View::note_recording_end() {
  has_stopped_ = true;
  model_.end(now_ns());
}

// Messages would tear the screen. The terminal is opened by the flush() after the record
// `attached`; what is said between the two is shown there, too.
void View::keep(Message message) {
  const bool opens_terminal = is_attached_ && !is_closed_ && !is_in_background();
  if (!terminal_ && !opens_terminal) return print(message);
  using Kind = output::MessageRecord::Kind;
  const bool is_hidden = (message.kind == Kind::detail && !messages_.is_verbose()) ||
                         (request_.messages.level == output::OutputOptions::Level::quiet &&
                          (message.kind == Kind::status || message.kind == Kind::warning));
  if (is_hidden) return;
  is_warning_ = message.kind != Kind::status && message.kind != Kind::detail;
  last_message_ = message.text;
  if (kept_.size() < max_messages)
    kept_.push_back(std::move(message));
  else
    ++omitted_messages_;
  if (has_stopped_ && terminal_) show(); // flush() may not be called for long
}

void View::print(const Message& message) {
  if (!message.kind) return messages_.fail_unrecorded(message.error);
  switch (*message.kind) {
  case output::MessageRecord::Kind::detail:
    return messages_.detail(message.text);
  case output::MessageRecord::Kind::status:
    return messages_.status(message.text);
  case output::MessageRecord::Kind::warning:
    return messages_.warn(message.text);
  case output::MessageRecord::Kind::notice:
    return messages_.notice(message.text);
  }
}

RunStatus View::status() const {
  RunStatus status{.title = request_.title,
                   .has_ended = has_ended_,
                   .has_stacks = request_.has_stacks,
                   .message = last_message_,
                   .is_warning = is_warning_,
                   .output = command_ ? &printed_.lines : nullptr,
                   .uses_unicode = terminal_ && terminal_->uses_unicode()};
  if (request_.duration)
    status.duration_ns = static_cast<std::uint64_t>(request_.duration->count());
  return status;
}

void View::show() {
  if (is_suspended_ || is_in_background()) return;
  if (command_) printed_ = command_->last();
  model_.select(state_.selected);
  terminal_->show(draw(shown(), state_, status(), terminal_->size()),
                  std::exchange(redraws_, false));
}

bool View::show_progress(std::string_view text) {
  if (!terminal_) return false;
  last_message_ = text;
  is_warning_ = false;
  show();
  return true;
}

// All of it, with the time in its name. Never replaces a file.
void View::write_file() {
  const std::string stem = file_stem();
  std::string path = stem + ".txt";
  UniqueFd file;
  for (int i = 2; i <= max_names; ++i) {
    file =
        UniqueFd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (file || errno != EEXIST) break;
    path = fmt::format("{}-{}.txt", stem, i);
  }
  Result<void> written;
  if (!file)
    written = fail(system_error(errno, "cannot write " + path));
  else if (const auto all =
               write_all(file.get(), as_bytes(text_of(shown(), state_, status(), true)));
           !all) {
    written = fail(system_error(all.error(), "cannot write " + path));
    ::unlink(path.c_str()); // a part of it
  }
  if (written)
    return keep({.kind = output::MessageRecord::Kind::status, .text = "written to " + path});
  is_warning_ = true;
  last_message_ = written.error().message;
}

void View::act(Action action) {
  switch (action) {
  case Action::none:
    break;
  case Action::quit:
    wants_end_ = true;
    break;
  case Action::write:
    write_file();
    break;
  case Action::reset:
    model_.reset();
    if (frozen_) frozen_->reset();
    break;
  case Action::pause:
    if (frozen_)
      frozen_.reset();
    else
      frozen_ = model_;
    state_.paused = frozen_.has_value();
    break;
  case Action::redraw:
    redraws_ = true;
    break;
  }
}

// Returns whether there were any.
bool View::press_keys() {
  const std::vector<KeyPress> keys = terminal_->take_keys();
  for (const KeyPress& key : keys) act(state_.press(key, shown()));
  return !keys.empty();
}

// Stops as ctrl-z does, with the terminal restored, until SIGCONT.
void View::suspend() {
  terminal_->suspend();
  is_suspended_ = true;
  if (!request_.stops_group)
    stop_signals_->stop();
  else if (::getsid(0) != ::getpgrp()) // else no shell would continue the group
    ::kill(0, SIGSTOP);
}

// Whether the terminal belongs to another process group, as after `bg`.
bool View::is_in_background() const {
  const pid_t foreground = ::tcgetpgrp(STDOUT_FILENO);
  return foreground > 0 && foreground != ::getpgrp();
}

Result<void> View::flush() {
  if (is_closed_ || !is_attached_) return {};
  if (!terminal_ && is_in_background()) return {}; // it is opened with `fg`
  if (!terminal_) {
    auto opened = Terminal::open(request_.messages.colour);
    if (!opened) {
      is_closed_ = true;
      messages_.warn("--live: " + opened.error().message);
      print_kept();
      return {};
    }
    terminal_ = std::move(*opened);
    if (auto signals = StopSignals::start()) stop_signals_.emplace(std::move(*signals));
  }
  if (stop_signals_ && stop_signals_->take()) suspend();
  if (is_in_background()) return {};
  if (std::exchange(is_suspended_, false)) {
    terminal_->resume();
    redraws_ = true;
  }
  const bool has_keys = press_keys();
  const Size size = terminal_->size();
  const auto now = Clock::now();
  if (last_draw_ != Time() && now - last_draw_ > max_gap) redraws_ = true;
  if (!has_keys && size == size_ && now < next_draw_ && !redraws_) return {};
  if (has_ended_ || now >= next_draw_) model_.advance(has_ended_ ? 0 : now_ns());
  if (now >= next_draw_) next_draw_ = now + draw_interval;
  last_draw_ = now;
  size_ = size;
  show();
  return {};
}

void View::add_to(std::vector<pollfd>& polled) const {
  if (!terminal_) return;
  polled.push_back({.fd = terminal_->fd(), .events = POLLIN, .revents = 0});
  if (stop_signals_) polled.push_back({.fd = stop_signals_->fd(), .events = POLLIN, .revents = 0});
}

void View::print_command_lines() {
  constexpr std::size_t most = 20;
  const LastLines last = command_->last();
  const std::deque<std::string>& lines = last.lines;
  if (lines.empty()) return;
  const std::size_t shown = std::min(lines.size(), most);
  const std::uint64_t all = lines.size() + last.omitted;
  std::string text = all == shown ? "the command has printed:\n"
                                  : fmt::format("the last {} of {} lines that the command has "
                                                "printed:\n",
                                                shown, all);
  for (std::size_t i = lines.size() - shown; i < lines.size(); ++i) text += "  " + lines[i] + '\n';
  static_cast<void>(write_all(STDERR_FILENO, as_bytes(text), write_timeout));
}

// Restores the terminal and writes what would have torn the screen.
void View::close() {
  if (std::exchange(is_over_, true)) return;
  is_closed_ = true;
  if (!terminal_) {
    if (command_) print_command_lines();
    return print_kept();
  }
  model_.advance(has_ended_ ? 0 : now_ns());
  has_ended_ = true;
  const RunStatus last = status();
  terminal_.reset();
  stop_signals_.reset();
  if (command_) print_command_lines();
  static_cast<void>(
      write_all(STDOUT_FILENO, as_bytes(text_of(model_, state_, last, false)), write_timeout));
  print_kept();
}

void View::print_kept() {
  for (const Message& each : kept_) print(each);
  kept_.clear();
  if (const std::size_t omitted = std::exchange(omitted_messages_, 0); omitted > 0)
    messages_.warn(fmt::format("and {} more messages", omitted));
}

} // namespace uprobectl::live
