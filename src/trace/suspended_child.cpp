// SPDX-License-Identifier: Apache-2.0
#include "trace/suspended_child.hpp"

#include "util/ignored_signals.hpp"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <unistd.h>

namespace uprobectl::trace {

namespace {

// Runs in the child, where only async-signal-safe calls are allowed until exec.
[[noreturn]] void wait_and_exec(int go, int failure, const CommandStdout& output, bool own_session,
                                char* const* words) {
  constexpr int cannot_execute = 127;
  if (own_session) ::setsid();
  for (const int signal : ignored_signals) std::signal(signal, SIG_DFL);
  const auto replace = [](int by, int fd) {
    if (::dup2(by, fd) < 0) ::_exit(cannot_execute);
  };
  if (const auto fd = output.fd()) replace(*fd, STDOUT_FILENO);
  if (output.view_fd) {
    replace(*output.view_fd, STDERR_FILENO);
    const int null = ::open("/dev/null", O_RDONLY); // may be stdin, if that was closed
    replace(null, STDIN_FILENO);
    if (null != STDIN_FILENO) ::close(null);
  }
  char byte = 0;
  ssize_t got = 0;
  do got = ::read(go, &byte, 1);
  while (got < 0 && errno == EINTR);
  if (got != 1) ::_exit(cannot_execute);
  ::execvp(words[0], words);
  const int errnum = errno;
  static_cast<void>(!::write(failure, &errnum, sizeof(errnum)));
  ::_exit(cannot_execute);
}

} // namespace

Result<CommandStdout> CommandStdout::open(const CommandOutput& request, output::Output& records) {
  Workstation& workstation = records.workstation();
  CommandStdout output;
  output.view_fd = request.view_fd;
  if (request.destination == CommandOutput::Destination::file) {
    output.file =
        workstation.open(request.path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0600);
    if (!output.file) return fail(system_error(errno, "cannot write " + request.path));
  }
  output.is_stderr =
      !request.view_fd && request.destination == CommandOutput::Destination::automatic &&
      records.buffer().fd() == STDOUT_FILENO && !workstation.is_terminal(STDOUT_FILENO);
  return output;
}

Result<SuspendedChild> SuspendedChild::start(const std::vector<std::string>& words,
                                             const CommandStdout& output, bool own_session) {
  auto go = process::make_pipe();
  auto failure = process::make_pipe();
  if (!go || !failure) return fail(go ? failure.error() : go.error());
  std::vector<char*> arguments; // execvp takes char* but does not modify the strings
  arguments.reserve(words.size() + 1);
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);

  const pid_t pid = ::fork();
  if (pid < 0) return fail(system_error(errno, "cannot start " + words.front()));
  if (pid == 0) {
    go->write_end.reset(); // otherwise the read end never sees end of file
    wait_and_exec(go->read_end.get(), failure->write_end.get(), output, own_session,
                  arguments.data());
  }
  return SuspendedChild(words.front(), pid, std::move(go->write_end), std::move(failure->read_end));
}

SuspendedChild::SuspendedChild(std::string name, pid_t pid, UniqueFd go, UniqueFd failure)
    : name_(std::move(name)), pid_(pid), release_pipe_(std::move(go)),
      exec_error_pipe_(std::move(failure)) {}

SuspendedChild::SuspendedChild(SuspendedChild&& other) noexcept
    : name_(std::move(other.name_)), pid_(std::exchange(other.pid_, -1)),
      release_pipe_(std::move(other.release_pipe_)),
      exec_error_pipe_(std::move(other.exec_error_pipe_)) {}

SuspendedChild::~SuspendedChild() {
  if (pid_ < 0 || !release_pipe_) return; // it was released: end() was called, or it outlives us
  ::kill(pid_, SIGKILL); // another child may hold the pipe open; it has not executed the command
  release_pipe_.reset();
  reap();
}

Result<void> SuspendedChild::release() {
  const char byte = 1;
  if (::write(release_pipe_.get(), &byte, 1) != 1)
    return fail(system_error(errno, "cannot start '" + name_ + "'"));
  release_pipe_.reset();
  int errnum = 0;
  const ssize_t got = ::read(exec_error_pipe_.get(), &errnum, sizeof(errnum));
  exec_error_pipe_.reset();
  if (got != sizeof(errnum)) return {};
  reap();
  return fail(system_error(errnum, "cannot run " + name_));
}

std::optional<process::ChildEnd>
SuspendedChild::reap(std::optional<std::chrono::milliseconds> timeout) {
  const auto status = timeout ? process::wait_for(pid_, *timeout) : process::wait_for(pid_);
  if (status) pid_ = -1;
  return status;
}

std::optional<SuspendedChild::End> SuspendedChild::end() {
  using namespace std::chrono_literals;
  if (pid_ < 0) return std::nullopt;
  if (const auto end = reap(0ms)) return End{*end};
  ::kill(pid_, SIGTERM);
  resume(); // a stopped process handles no signal but SIGKILL until it continues
  if (const auto end = reap(2s)) return End{*end, true};
  return std::nullopt;
}

void SuspendedChild::resume() const {
  if (pid_ > 0) ::kill(pid_, SIGCONT);
}

} // namespace uprobectl::trace
