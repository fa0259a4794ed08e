// SPDX-License-Identifier: Apache-2.0
#include "process/command.hpp"

#include "process/child.hpp"
#include "process/spawn.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace uprobectl::process {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t max_output = 1U << 20;

using ChunkHandler = std::function<bool(std::string_view chunk)>;

enum class ReadStatus { open, end, rejected };

ReadStatus read_chunk(int fd, const ChunkHandler& handle) {
  std::array<char, 16384> chunk{};
  const ssize_t size = ::read(fd, chunk.data(), chunk.size());
  if (size < 0) return errno == EINTR || errno == EAGAIN ? ReadStatus::open : ReadStatus::end;
  if (size == 0) return ReadStatus::end;
  return handle({chunk.data(), static_cast<std::size_t>(size)}) ? ReadStatus::open
                                                                : ReadStatus::rejected;
}

// Blocks SIGINT, SIGTERM and SIGHUP while a command runs, so that it can be killed before this
// process ends: in its own process group the command does not get them. They stay pending and are
// delivered when this is destroyed.
class BlockedSignals {
public:
  BlockedSignals() {
    sigset_t held;
    sigemptyset(&held);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
      struct sigaction action{};
      // Do not block ignored signals (nohup): a blocked one would become pending.
      if (::sigaction(signal, nullptr, &action) == 0 && action.sa_handler != SIG_IGN)
        sigaddset(&held, signal);
    }
    ::pthread_sigmask(SIG_BLOCK, &held, &before_);
    pending_ = UniqueFd{::signalfd(-1, &held, SFD_CLOEXEC | SFD_NONBLOCK)};
  }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;
  ~BlockedSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  int fd() const { return pending_.get(); } // readable if a signal is pending; never read

private:
  sigset_t before_{};
  UniqueFd pending_;
};

// A running command, the leader of its process group. The destructor kills the whole group.
class RunningCommand {
public:
  explicit RunningCommand(pid_t leader) : leader_(leader), ended_fd_(open_pidfd(leader)) {}
  RunningCommand(const RunningCommand&) = delete;
  RunningCommand& operator=(const RunningCommand&) = delete;
  ~RunningCommand() { end(); }

  // Does not reap the leader, so that its process group id cannot be reused before end().
  bool has_ended() {
    if (has_ended_) return true;
    siginfo_t info{};
    has_ended_ =
        ::waitid(P_PID, static_cast<id_t>(leader_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        info.si_pid == leader_;
    if (has_ended_) ended_fd_.reset(); // otherwise poll would return at once every time
    return has_ended_;
  }
  int fd() const { return ended_fd_.get(); } // readable when it has ended; -1 before Linux 5.3
  bool needs_polling() const { return !has_ended_ && !ended_fd_; }

  // Kills the group and returns the exit status of the leader.
  int end() {
    if (leader_ < 0) return 0;
    ::kill(leader_, SIGKILL); // it may have changed its process group
    ::kill(-leader_, SIGKILL);
    return wait_for(std::exchange(leader_, -1)).value_or(ChildEnd()).shell_status();
  }

private:
  pid_t leader_;
  UniqueFd ended_fd_;
  bool has_ended_ = false;
};

// Reads both pipes until they are closed and the program has ended. Returns what went wrong, or
// nullopt. Processes that the program left running can keep the pipes open: then reads until no
// output comes for idle_timeout.
std::optional<Error> read_both(RunningCommand& program, const BlockedSignals& signals, Pipe& out,
                               Pipe& err, const ChunkHandler& take_output,
                               const ChunkHandler& take_errors, Clock::time_point deadline,
                               const IsInterrupted& is_interrupted) {
  constexpr std::chrono::seconds idle_timeout{1};
  constexpr std::chrono::milliseconds poll_interval{10}; // without a pidfd
  constexpr std::chrono::milliseconds interrupt_check_interval{100};
  const auto read_from = [](UniqueFd& end, const ChunkHandler& handle) {
    const ReadStatus status = read_chunk(end.get(), handle);
    if (status == ReadStatus::end) end.reset();
    return status != ReadStatus::rejected;
  };
  const Error too_much_output{ErrorKind::io, "too much output"};
  std::optional<Clock::time_point> idle_since; // set once the program has ended
  for (;;) {
    const auto now = Clock::now();
    if (program.has_ended()) {
      if (!out.read_end && !err.read_end) return std::nullopt;
      if (!idle_since) idle_since = now;
      if (now - *idle_since >= idle_timeout) return std::nullopt;
    }
    if (now >= deadline) return Error{ErrorKind::io, "timed out"};
    if (is_interrupted && is_interrupted()) return Error{ErrorKind::interrupted, "interrupted"};
    auto until = idle_since ? std::min(deadline, *idle_since + idle_timeout) : deadline;
    if (program.needs_polling()) until = std::min(until, now + poll_interval);
    if (is_interrupted) until = std::min(until, now + interrupt_check_interval);
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - now).count();
    // poll ignores descriptors of -1.
    std::array polled = {pollfd{.fd = out.read_end.get(), .events = POLLIN, .revents = 0},
                         pollfd{.fd = err.read_end.get(), .events = POLLIN, .revents = 0},
                         pollfd{.fd = program.fd(), .events = POLLIN, .revents = 0},
                         pollfd{.fd = signals.fd(), .events = POLLIN, .revents = 0}};
    if (::poll(polled.data(), polled.size(), static_cast<int>(left)) <= 0) continue;
    if (polled[3].revents != 0) return Error{ErrorKind::interrupted, "interrupted"};
    if (polled[0].revents != 0 && !read_from(out.read_end, take_output)) return too_much_output;
    if (polled[1].revents != 0 && !read_from(err.read_end, take_errors)) return too_much_output;
    if ((polled[0].revents | polled[1].revents) != 0) idle_since.reset();
  }
}

Result<CommandResult> run(const std::vector<std::string>& words, std::chrono::milliseconds timeout,
                          const ChunkHandler& take_output, const std::string& path,
                          const IsInterrupted& is_interrupted) {
  auto out = make_pipe();
  auto err = make_pipe();
  if (!out || !err) return fail(out ? err.error() : out.error());
  const BlockedSignals signals;
  const auto child = SpawnOptions({.output = out->write_end.get(), .errors = err->write_end.get()})
                         .start(words, path);
  if (!child) return fail(child.error());
  RunningCommand program(*child);
  out->write_end.reset();
  err->write_end.reset();

  CommandResult result;
  bool has_output = false;
  const auto note_output = [&](std::string_view chunk) {
    has_output = true;
    return take_output(chunk);
  };
  const auto take_errors = [&](std::string_view chunk) {
    has_output = true;
    result.errors += chunk;
    return result.errors.size() <= max_output;
  };
  auto failure = read_both(program, signals, *out, *err, note_output, take_errors,
                           Clock::now() + timeout, is_interrupted);
  if (failure) return fail(std::move(*failure).within(words.front()));
  result.exit_code = program.end();
  // If execve fails, posix_spawn may return the error or (under qemu-user) create a child that
  // exits with 127.
  if (!has_output && result.exit_code == 127)
    return fail(system_error(ENOENT, "cannot run " + words.front()));
  return result;
}

// Runs the command and returns its output in the result.
Result<CommandResult> run_and_keep(const std::vector<std::string>& words,
                                   std::chrono::milliseconds timeout, const std::string& path,
                                   const IsInterrupted& is_interrupted) {
  std::string output;
  const auto take_output = [&](std::string_view chunk) {
    output += chunk;
    return output.size() <= max_output;
  };
  auto result = run(words, timeout, take_output, path, is_interrupted);
  if (result) result->output = std::move(output);
  return result;
}

} // namespace

Result<CommandResult> run_android_command(std::vector<std::string> words,
                                          std::chrono::milliseconds timeout) {
  const std::string directory = android_command_directory();
  words.front() = directory + "/" + words.front();
  return run_and_keep(words, timeout, android_path(), {});
}

Result<CommandResult> run_command(const std::vector<std::string>& words,
                                  std::chrono::milliseconds timeout,
                                  const IsInterrupted& is_interrupted) {
  return run_and_keep(words, timeout, {}, is_interrupted);
}

Result<CommandResult> stream_command(const std::vector<std::string>& words,
                                     std::chrono::milliseconds timeout, std::size_t max_size,
                                     const std::function<bool(std::string_view chunk)>& take) {
  std::size_t taken = 0;
  const auto take_output = [&](std::string_view chunk) {
    taken += chunk.size();
    return taken <= max_size && take(chunk);
  };
  return run(words, timeout, take_output, {}, {});
}

} // namespace uprobectl::process
