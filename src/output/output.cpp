// SPDX-License-Identifier: Apache-2.0
#include "output/output.hpp"

#include "output/format.hpp"
#include "util/descriptor_io.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace uprobectl::output {

namespace {

constexpr std::size_t flush_size = 64 * 1024;

// How often flush_within() calls is_cancelled.
constexpr std::chrono::milliseconds cancel_check_interval{50};

// How often a write is tried again while there is no space.
constexpr std::chrono::milliseconds space_check_interval{100};

// EFBIG: RLIMIT_FSIZE, or the largest file of the file system.
bool is_shortage(int error) { return error == ENOSPC || error == EDQUOT || error == EFBIG; }

enum class Writability { blocked, ready, invalid };

// `invalid` means that the descriptor is not open (POLLNVAL). A missing reader shows as EPIPE in
// write().
Writability poll_writable(int fd, int timeout_ms) {
  pollfd polled{.fd = fd, .events = POLLOUT, .revents = 0};
  if (::poll(&polled, 1, timeout_ms) <= 0) return Writability::blocked;
  return (polled.revents & POLLNVAL) != 0 ? Writability::invalid : Writability::ready;
}

struct Colour {
  std::string_view start;
  std::string_view stop = "\x1b[0m";
};
constexpr Colour red{"\x1b[1;31m"};
constexpr Colour yellow{"\x1b[1;33m"};
constexpr Colour cyan{"\x1b[36m"};

std::string coloured(std::string_view text, const Colour& colour, bool on) {
  if (!on) return std::string(text);
  return std::string(colour.start) + std::string(text) + std::string(colour.stop);
}

// Appends a message. Further lines, as of a verifier's log, are indented, so that text from a file
// cannot imitate a message.
void append_message(std::string& out, std::string_view text) {
  while (true) {
    const auto end = text.find('\n');
    append_printable(out, text.substr(0, end));
    out += '\n';
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
    out += "    ";
  }
}

// Lines that report_repeated() shows for one kind of gathered warnings, and for all.
constexpr std::size_t max_lines_per_kind = 3;
constexpr std::size_t max_gathered_lines = 20;

} // namespace

void OutputBuffer::append(std::string_view text) {
  draft() += text;
  commit();
}

void OutputBuffer::disable_auto_flush() {
  auto_flush_ = false;
  if (is_regular_file(fd_)) max_write_size_ = flush_size;
  whole_end_ = pending_begin_ + written_;
  if (pending() > 0) record_ends_.push_back(pending_begin_ + pending_.size());
}

void OutputBuffer::commit() {
  if (!auto_flush_) record_ends_.push_back(pending_begin_ + pending_.size());
  if (closed_ || error_)
    reset_pending();
  else if (auto_flush_ && pending() >= flush_size)
    flush();
}

void OutputBuffer::write_once(std::size_t max_bytes) {
  std::string_view rest = std::string_view(pending_).substr(written_, max_bytes);
  // Write whole lines, because the traced command may write to the same file.
  if (const auto end = rest.rfind('\n'); end != std::string_view::npos)
    rest = rest.substr(0, end + 1);
  if (before_write_) before_write_();
  const ssize_t size = ::write(fd_, rest.data(), rest.size());
  if (size >= 0) {
    written_ += static_cast<std::size_t>(size);
    shortage_.reset();
  } else if (errno == EPIPE) {
    closed_ = true;
  } else if (errno == EAGAIN) {
    // The parent has set O_NONBLOCK: wait until the descriptor is writable.
    static_cast<void>(poll_writable(fd_, -1));
  } else if (!auto_flush_ && is_shortage(errno)) {
    shortage_ = system_error(errno, "cannot write the output");
    next_try_ = std::chrono::steady_clock::now() + space_check_interval;
  } else if (errno != EINTR) {
    error_ = system_error(errno, "cannot write the output");
  }
  while (!record_ends_.empty() && record_ends_.front() <= pending_begin_ + written_) {
    whole_end_ = record_ends_.front();
    record_ends_.pop_front();
  }
  while (!event_ends_.empty() && event_ends_.front() <= pending_begin_ + written_)
    event_ends_.pop_front();
  if (written_ == pending_.size() || closed_ || error_) reset_pending();
}

// Removes a record that was written in part from the end of the file. Returns whether that was
// possible: someone else may have written there.
bool OutputBuffer::take_back_part() {
  const std::uint64_t part = pending_begin_ + written_ - whole_end_;
  struct stat status{};
  if (auto_flush_ || part == 0 || part > written_ || !is_regular_file(fd_) ||
      ::fstat(fd_, &status) != 0)
    return false;
  const off_t end = ::lseek(fd_, 0, SEEK_CUR);
  const auto begin = end - static_cast<off_t>(part);
  if (end != status.st_size || begin < 0 || ::ftruncate(fd_, begin) != 0) return false;
  ::lseek(fd_, begin, SEEK_SET);
  written_ -= part;
  return true;
}

// Empties the pending text. If some of it was not written, removes the written part of its record
// from the file and counts the events that end in it as dropped.
void OutputBuffer::reset_pending() {
  if (pending() > 0) take_back_part();
  record_ends_.clear();
  whole_end_ = pending_begin_ + pending_.size();
  pending_begin_ += pending_.size();
  pending_.clear();
  written_ = 0;
  dropped_events_ += event_ends_.size();
  event_ends_.clear();
}

void OutputBuffer::end_event() {
  if (closed_ || error_)
    ++dropped_events_;
  else if (pending() > 0) // otherwise append() has written it
    event_ends_.push_back(pending_begin_ + pending_.size());
}

void OutputBuffer::abandon() {
  closed_ = true;
  reset_pending();
}

void OutputBuffer::give_up_waiting() {
  if (!shortage_) return;
  error_ = std::exchange(shortage_, std::nullopt);
  reset_pending();
}

void OutputBuffer::continue_in(int fd) {
  take_back_part();
  shortage_.reset();
  ::dup3(fd, fd_, O_CLOEXEC);
}

bool OutputBuffer::is_waiting_for_space() const {
  return shortage_ && std::chrono::steady_clock::now() < next_try_;
}

void OutputBuffer::flush() {
  while (pending() > 0) {
    write_once(pending());
    give_up_waiting();
  }
}

void OutputBuffer::flush_some() {
  while (pending() > 0 && !is_waiting_for_space()) {
    const Writability state = poll_writable(fd_, 0);
    if (state == Writability::invalid) return abandon();
    if (state == Writability::blocked) break;
    write_once(max_write_size_);
  }
  // A record that was written in part is kept whole, for continue_in().
  const auto whole = static_cast<std::size_t>(whole_end_ - std::min(whole_end_, pending_begin_));
  if (whole > pending_.size() / 2) {
    pending_.erase(0, whole);
    pending_begin_ += whole;
    written_ -= whole;
  }
}

bool OutputBuffer::flush_within(std::chrono::milliseconds stall_timeout,
                                const std::function<bool()>& is_cancelled) {
  std::chrono::milliseconds waited{0};
  while (pending() > 0) {
    if (is_cancelled && is_cancelled()) return false;
    const bool has_space = !is_waiting_for_space();
    const auto slice = is_cancelled || !has_space
                           ? std::min(stall_timeout - waited, cancel_check_interval)
                           : stall_timeout;
    if (!has_space) std::this_thread::sleep_for(slice);
    const Writability state =
        has_space ? poll_writable(fd_, static_cast<int>(slice.count())) : Writability::blocked;
    if (state == Writability::blocked) {
      waited += slice;
      if (waited >= stall_timeout) return false;
      continue;
    }
    if (state == Writability::invalid)
      abandon();
    else
      write_once(max_write_size_);
    if (!shortage_) waited = {};
  }
  return true;
}

Output::Output(int records_fd, const OutputOptions& options)
    : progress_(options.messages_fd, options.level != Level::quiet &&
                                         options.workstation->is_terminal(options.messages_fd)),
      buffer_(records_fd), formatter_(options.only_recorded ? nullptr
                                      : options.json        ? make_json_formatter(buffer_)
                                                     : make_text_formatter(buffer_, options.style)),
      hides_recorded_messages_(options.hides_recorded_messages), colour_(options.colour),
      level_(options.level), workstation_(*options.workstation), json_(options.json) {
  if (options.workstation->is_terminal(records_fd))
    buffer_.set_before_write([this] { progress_.clear(); });
}

Output::Output(UniqueFd file, const OutputOptions& options) : Output(file.get(), options) {
  file_ = std::move(file);
}

namespace {

// Adds the options of --adb to commands in hints, because they are typed on the workstation.
// Commands for help work there without the options.
Error with_command_options(Error error, const std::string& options) {
  constexpr std::string_view program = "uprobectl ";
  if (options.empty()) return error;
  for (std::string& hint : error.hints) {
    const auto at = hint.find(program);
    if (at == std::string::npos || hint.contains("--help") || hint.contains("uprobectl help"))
      continue;
    hint.insert(at + program.size(), options + ' ');
  }
  return error;
}

} // namespace

void Output::fail(const Error& error, std::optional<std::string> target,
                  std::optional<std::string> request) {
  failed_ = true;
  const Error shown = with_command_options(error, workstation_.command_options());
  write(ErrorRecord{std::move(target), std::move(request), shown});
  if (!are_messages_hidden()) write_error(shown);
}

void Output::fail_unrecorded(const Error& error) {
  failed_ = true;
  const Error shown = with_command_options(error, workstation_.command_options());
  if (formatter_) formatter_->write(ErrorRecord{{}, {}, shown});
  write_error(shown);
}

void Output::reopen() {
  if (!open_again_) return warn("SIGUSR1: there is no file of -o to open again");
  const UniqueFd file = open_again_();
  if (!file)
    return warn(system_error(errno, "the file of -o cannot be opened again").message +
                ": the records go on in the one that is open");
  buffer_.flush_some();
  buffer_.continue_in(file.get());
}

void Output::report_shortage() {
  const Error* const shortage = buffer_.shortage();
  if ((shortage != nullptr) == has_reported_shortage_) return;
  has_reported_shortage_ = shortage != nullptr;
  warn(has_reported_shortage_
           ? shortage->message + ": events wait for space, and are lost when the "
                                 "buffers are full"
           : "the output is written again");
}

void Output::flush_rows() {
  if (formatter_) formatter_->flush_rows();
  for (Recorder* const each : recorders_) each->flush_rows();
}

void Output::flush_recorders() {
  for (std::size_t i = 0; i < recorders_.size();) {
    Recorder& recorder = *recorders_[i];
    const auto flushed = recorder.flush();
    for (const std::string& text : recorder.take_warnings()) warn_of(recorder, text);
    if (flushed) {
      ++i;
      continue;
    }
    recorders_.erase(recorders_.begin() + static_cast<std::ptrdiff_t>(i));
    fail(flushed.error());
  }
}

// Shows the warning of a recorder about its own output: by the other recorders if only recorders
// show messages.
void Output::warn_of(const Recorder& recorder, std::string_view text) {
  if (level_ == Level::quiet) return;
  if (!hides_recorded_messages_ || recorders_.size() == 1) return write_notice(text);
  for (Recorder* const each : recorders_)
    if (each != &recorder)
      each->write(MessageRecord{.kind = MessageRecord::Kind::warning, .text = text});
}

bool Output::record_message(MessageRecord::Kind kind, std::string_view text) {
  record(MessageRecord{.kind = kind, .text = text});
  return are_messages_hidden();
}

void Output::flush() {
  flush_rows();
  buffer_.flush();
}

void Output::finish() {
  flush();
  report_repeated();
  for (Recorder* const each : recorders_) each->end();
  flush_recorders();
  recorders_.clear();
  buffer_.flush();
  if (!buffer_.error()) return;
  failed_ = true;
  write_error(*buffer_.error());
}

void Output::write_error(const Error& error) {
  std::string text = "uprobectl: " + coloured("error:", red, colour_) + " ";
  append_message(text, error.message);
  for (const std::string& hint : error.hints) {
    text += "  " + coloured("hint:", cyan, colour_) + " ";
    append_message(text, hint);
  }
  progress_.write(text);
}

void Output::warn(std::string_view text) {
  if (record_message(MessageRecord::Kind::warning, text)) return;
  if (level_ != Level::quiet) write_notice(text);
}

void Output::warn_once(std::string_view text) {
  if (once_.emplace(text).second) warn(text);
}

void Output::detail_once(std::string_view text) {
  if (once_.emplace(text).second) detail(text);
}

void Output::warn_once(const std::vector<std::string>& texts) {
  for (const std::string& text : texts) warn_once(text);
}

Output::Repeated& Output::repeated_of(std::string_view kind, bool is_reported) {
  const auto known = repeated_by_kind_.find(kind);
  if (known != repeated_by_kind_.end()) return repeated_[known->second];
  repeated_by_kind_.emplace(kind, repeated_.size());
  return repeated_.emplace_back(Repeated{.texts = {}, .count = 0, .is_reported = is_reported});
}

void Output::repeated_warning(std::string_view kind, std::string_view text) {
  if (is_verbose()) return warn(text);
  Repeated& repeated = repeated_of(kind, true);
  if (++repeated.count > 1) return;
  repeated.texts.emplace_back(text);
  warn(text);
}

void Output::gathered_warning(std::string_view kind, std::string_view text) {
  if (is_verbose()) return warn(text);
  Repeated& repeated = repeated_of(kind, false);
  ++repeated.count;
  if (repeated.texts.size() < max_lines_per_kind) repeated.texts.emplace_back(text);
}

void Output::gather_warnings(std::span<const resolve::ProbePoint> points) {
  for (const resolve::ProbePoint& point : points)
    for (const std::string_view warning : point.warnings) {
      if (!once_.emplace(warning).second) continue;
      const std::string name = point.symbol ? fmt::format("'{}' ", *point.symbol) : "";
      gathered_warning(warning.starts_with(name) ? warning.substr(name.size()) : warning, warning);
    }
}

void Output::report_repeated() {
  std::size_t lines = 0;
  std::uint64_t unreported = 0;
  for (const Repeated& repeated : repeated_) {
    const std::string& first = repeated.texts.front();
    const std::uint64_t others = repeated.count - 1;
    if (repeated.is_reported) {
      if (others > 0) warn(fmt::format("and {} more like it: {}", others, first));
    } else if (lines >= max_gathered_lines) {
      unreported += repeated.count;
    } else if (repeated.count > repeated.texts.size()) {
      warn(fmt::format("{} (and {} more like it)", first, others));
      ++lines;
    } else {
      for (const std::string& text : repeated.texts) warn(text);
      lines += repeated.texts.size();
    }
  }
  if (unreported > 0) warn(fmt::format("and {} more warnings (-v shows each)", unreported));
  repeated_by_kind_.clear();
  repeated_.clear();
}

void Output::notice(std::string_view text) {
  if (record_message(MessageRecord::Kind::notice, text)) return;
  write_notice(text);
}

void Output::write_notice(std::string_view text) {
  std::string line = "uprobectl: " + coloured("warning:", yellow, colour_) + " ";
  append_message(line, text);
  progress_.write(line);
}

void Output::status(std::string_view text) {
  if (record_message(MessageRecord::Kind::status, text)) return;
  write_status(text);
}

void Output::status_even_quiet(std::string_view text) {
  if (record_message(MessageRecord::Kind::status, text)) return;
  write_status(text, true);
}

void Output::write_status(std::string_view text, bool even_quiet) {
  if (level_ == Level::quiet && !even_quiet) return;
  std::string line;
  append_message(line, text);
  progress_.write(line);
}

void Output::detail(std::string_view text) {
  if (record_message(MessageRecord::Kind::detail, text)) return;
  if (level_ == Level::verbose) write_status(text);
}

} // namespace uprobectl::output
