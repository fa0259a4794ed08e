// SPDX-License-Identifier: Apache-2.0
#include "live/command_output.hpp"

#include "output/format.hpp"
#include "process/child.hpp"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace uprobectl::live {

namespace {

// So that a command that prints much seldom waits for us. A smaller pipe works as well.
constexpr int pipe_size = 1 << 20;
constexpr std::size_t most_at_once = 1 << 20; // bytes

// Keeps only these descriptors, as 0 and 1.
void keep_descriptors(int first, int second) {
  const int kept_first = ::fcntl(first, F_DUPFD, 3);
  const int kept_second = ::fcntl(second, F_DUPFD, 3);
  ::dup2(kept_first, 0);
  ::dup2(kept_second, 1);
  if (::syscall(SYS_close_range, 2U, ~0U, 0U) == 0) return;
  for (int each = 2; each < 1024; ++each) ::close(each); // before Linux 5.9
}

// Waits until the other end of `life` is closed, then reads the pipe to its end.
[[noreturn]] void discard_after(int pipe, int life) {
  keep_descriptors(pipe, life);
  std::array<char, 4096> buffer; // NOLINT(*-member-init): not read
  while (::read(1, buffer.data(), 1) < 0 && errno == EINTR) {
  }
  ::fcntl(0, F_SETFL, 0); // wait for what is written
  for (ssize_t got = 1; got > 0 || (got < 0 && errno == EINTR);)
    got = ::read(0, buffer.data(), buffer.size());
  ::_exit(0);
}

// Starts a process that reads the pipe when we have ended, also by SIGKILL: a command that goes on
// then gets no SIGPIPE, and does not wait for a reader. It ends when the command has closed the
// pipe. Returns what must be open as long as we read the pipe ourselves.
Result<UniqueFd> start_discarder(int pipe) {
  auto life = process::make_pipe();
  if (!life) return fail(std::move(life).error());
  const pid_t child = ::fork();
  if (child < 0) return fail(system_error(errno, "cannot start a process"));
  if (child == 0) {
    sigset_t all;
    sigfillset(&all);
    ::sigprocmask(SIG_SETMASK, &all, nullptr);
    // A grandchild: nobody has to wait for it.
    if (::fork() != 0) ::_exit(0);
    ::setsid();
    discard_after(pipe, life->read_end.get());
  }
  process::wait_for(child);
  return std::move(life->write_end);
}

} // namespace

Result<std::unique_ptr<CommandLines>> CommandLines::open() {
  auto pipe = process::make_pipe();
  if (!pipe) return fail(std::move(pipe).error());
  UniqueFd stop(::eventfd(0, EFD_CLOEXEC));
  if (!stop) return fail(system_error(errno, "cannot read the output of a command"));
  ::fcntl(pipe->write_end.get(), F_SETPIPE_SZ, pipe_size);
  // Only our end: each has its own flags.
  ::fcntl(pipe->read_end.get(), F_SETFL, O_NONBLOCK);
  auto discarder = start_discarder(pipe->read_end.get());
  if (!discarder) return fail(std::move(discarder).error());
  return std::unique_ptr<CommandLines>(new CommandLines(std::move(pipe->read_end),
                                                        std::move(pipe->write_end), std::move(stop),
                                                        std::move(*discarder)));
}

CommandLines::CommandLines(UniqueFd read_end, UniqueFd write_end, UniqueFd stop, UniqueFd discarder)
    : read_end_(std::move(read_end)), write_end_(std::move(write_end)), stop_(std::move(stop)),
      discarder_(std::move(discarder)) {
  sigset_t all;
  sigfillset(&all);
  sigset_t before;
  ::pthread_sigmask(SIG_SETMASK, &all, &before); // signals are those of the run
  thread_ = std::thread([this] { work(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

CommandLines::~CommandLines() {
  ::eventfd_write(stop_.get(), 1);
  thread_.join();
}

LastLines CommandLines::last() {
  const std::scoped_lock lock(mutex_);
  read();
  return last_;
}

void CommandLines::work() {
  std::array<pollfd, 2> polled = {{{.fd = read_end_.get(), .events = POLLIN, .revents = 0},
                                   {.fd = stop_.get(), .events = POLLIN, .revents = 0}}};
  for (;;) {
    if (::poll(polled.data(), polled.size(), -1) < 0) continue;
    if (polled[1].revents != 0) return;
    const std::scoped_lock lock(mutex_);
    read();
  }
}

void CommandLines::read() {
  for (std::size_t all = 0; all < most_at_once;) {
    const ssize_t got = ::read(read_end_.get(), chunk_.data(), chunk_.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return;
    all += static_cast<std::size_t>(got);
    add(std::string_view(chunk_.data(), static_cast<std::size_t>(got)));
  }
}

void CommandLines::add(std::string_view bytes) {
  std::deque<std::string>& lines = last_.lines;
  while (!bytes.empty()) {
    const auto end = bytes.find('\n');
    const std::string text = output::printable(bytes.substr(0, end));
    if (!is_in_line_) lines.emplace_back();
    if (lines.size() > max_lines) {
      lines.pop_front();
      ++last_.omitted;
    }
    std::string& line = lines.back();
    if (line.size() < max_line_bytes) line += text.substr(0, max_line_bytes - line.size());
    is_in_line_ = end == std::string_view::npos;
    if (is_in_line_) break;
    bytes.remove_prefix(end + 1);
  }
}

} // namespace uprobectl::live
