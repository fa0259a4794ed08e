// SPDX-License-Identifier: Apache-2.0
#include "host/sink.hpp"

#include "host/adb.hpp"
#include "output/format.hpp"
#include "output/json_reader.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

namespace uprobectl::host {

namespace {

using namespace std::chrono_literals;

constexpr std::size_t full_size = 1 << 20;
// pipe(7): a pipe that poll() reports as writable takes PIPE_BUF bytes without blocking.
constexpr std::size_t pipe_step = 4096;
constexpr std::size_t max_line = 16 << 20; // records of ours have less than 1 MiB

Error too_much(std::size_t max_size) {
  return {ErrorKind::io, fmt::format("more than {} MiB of output", max_size >> 20)};
}

} // namespace

Sink::Sink(int fd) : fd_(fd) {
  struct stat status{};
  regular_ = ::fstat(fd_, &status) == 0 && S_ISREG(status.st_mode);
  if (!regular_) writer_ = std::thread([this] { write_queue(); });
}

Sink::Sink(UniqueFd file, bool truncates) : Sink(file.get()) {
  file_ = std::move(file);
  truncates_ = truncates && regular_;
}

Sink::~Sink() {
  if (!writer_.joinable()) return;
  {
    const std::scoped_lock lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  writer_.join();
}

void Sink::write(std::string_view bytes) {
  const std::scoped_lock lock(mutex_);
  has_output_ = has_output_ || !bytes.empty();
  if (max_kept_) return keep(bytes);
  if (closed_ || errnum_ != 0 || bytes.empty()) return;
  if (!regular_) {
    queue_ += bytes;
    changed_.notify_all();
    return;
  }
  if (std::exchange(truncates_, false)) static_cast<void>(!::ftruncate(fd_, 0));
  std::size_t written = 0;
  while (written < bytes.size() && write_some(bytes.substr(written), written)) {
  }
}

void Sink::keep(std::string_view bytes) {
  overflowed_ = overflowed_ || bytes.size() > *max_kept_ - kept_.size();
  if (!overflowed_) kept_ += bytes;
}

// Returns false after an error.
bool Sink::write_some(std::string_view bytes, std::size_t& written) {
  const ssize_t done = ::write(fd_, bytes.data(), bytes.size());
  if (done >= 0) {
    written += static_cast<std::size_t>(done);
    return true;
  }
  if (errno == EINTR || errno == EAGAIN) return true;
  if (errno == EPIPE)
    closed_ = true;
  else
    errnum_ = errno;
  return false;
}

void Sink::write_queue() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopped_ || is_waiting(); });
    if (stopped_) return;
    pollfd polled{.fd = fd_, .events = POLLOUT, .revents = 0};
    lock.unlock();
    const int ready = ::poll(&polled, 1, 50);
    lock.lock();
    if (ready <= 0 || !is_waiting()) continue;
    std::size_t written = 0;
    write_some(std::string_view(queue_).substr(0, pipe_step), written);
    queue_.erase(0, written);
    if (closed_ || errnum_ != 0) queue_.clear();
    if (queue_.empty()) changed_.notify_all();
  }
}

bool Sink::is_full() {
  const std::scoped_lock lock(mutex_);
  return queue_.size() >= full_size;
}

bool Sink::is_closed() {
  const std::scoped_lock lock(mutex_);
  return closed_;
}

bool Sink::has_output() {
  const std::scoped_lock lock(mutex_);
  return has_output_;
}

bool Sink::has_overflowed() {
  const std::scoped_lock lock(mutex_);
  return overflowed_;
}

std::string Sink::content() {
  const std::scoped_lock lock(mutex_);
  return kept_;
}

std::optional<Error> Sink::finish() {
  std::unique_lock lock(mutex_);
  const int before = Interrupts::count();
  while (is_waiting() && Interrupts::count() == before) changed_.wait_for(lock, 100ms);
  if (overflowed_) return too_much(*max_kept_);
  if (errnum_ == 0) return std::nullopt;
  return system_error(errnum_, "cannot write the output");
}

MarkedLines::MarkedLines(Sink& sink, LineMark mark, const std::string& serial,
                         StreamContent content)
    : sink_(&sink), mark_(mark), text_(content) {
  if (mark == LineMark::device) output::JsonRecord(label_).key("device", std::string_view(serial));
  if (mark == LineMark::column) label_ = output::printable(serial) + '\t';
  if (mark == LineMark::prefix) label_ = output::printable(serial) + ": ";
}

Result<void> MarkedLines::add(std::string_view bytes) {
  std::string out = text_.add(bytes);
  if (mark_ != LineMark::none) add_lines(std::exchange(out, {}), out);
  sink_->write(out);
  if (partial_.size() > max_line) return fail(ErrorKind::corrupt, "a line of more than 16 MiB");
  return check_size();
}

void MarkedLines::add_lines(std::string_view text, std::string& out) {
  for (;;) {
    const auto newline = text.find('\n');
    if (newline == std::string_view::npos) break;
    partial_ += text.substr(0, newline);
    add_line(out, partial_);
    partial_.clear();
    text.remove_prefix(newline + 1);
  }
  partial_ += text;
}

Result<void> MarkedLines::check_size() {
  if (!sink_->has_overflowed()) return {};
  auto error = sink_->finish();
  return error ? fail(std::move(*error)) : Result<void>();
}

void MarkedLines::finish() {
  std::string out = text_.finish();
  if (mark_ != LineMark::none) add_lines(std::exchange(out, {}), out);
  if (!partial_.empty()) add_line(out, partial_);
  partial_.clear();
  sink_->write(out);
}

void MarkedLines::add_line(std::string& out, std::string_view line) {
  if (mark_ != LineMark::device) {
    // Progress is not shown after a mark.
    if (line.ends_with('\r')) line.remove_suffix(1);
    line.remove_prefix(line.rfind('\r') + 1); // npos + 1 is 0
    out.append(label_).append(line) += '\n';
    return;
  }
  if (!line.starts_with('{') || !line.ends_with('}') || line.size() < 3) { // not a record: help
    out.append(line) += '\n';
    return;
  }
  if (const auto summary = output::read_record<output::SummaryRecord>(line)) {
    totals_.any = true;
    totals_.events += summary->events;
    totals_.lost += summary->lost.value_or(0);
    totals_.is_lost_known &= summary->lost.has_value();
  }
  out.append(line.substr(0, line.size() - 1)).append(label_) += "}\n";
}

} // namespace uprobectl::host
