// SPDX-License-Identifier: Apache-2.0
#include "process/background_command.hpp"

#include "process/spawn.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

namespace uprobectl::process {

Result<BackgroundCommand> BackgroundCommand::start(std::vector<std::string> words,
                                                   std::string_view input,
                                                   const std::vector<std::string>& temporary) {
  if (input.size() > max_input)
    return fail(ErrorKind::usage, "the input of " + words.front() + " is too large");
  auto in = make_pipe();
  if (!in) return fail(std::move(in).error());
  UniqueFd errors{::memfd_create("stderr", MFD_CLOEXEC)};
  if (!errors) return fail(system_error(errno, "cannot create a file in memory"));
  // A pipe takes this at once.
  if (::write(in->write_end.get(), input.data(), input.size()) !=
      static_cast<ssize_t>(input.size()))
    return fail(system_error(errno, "cannot write to a pipe"));
  in->write_end.reset();
  std::string path;
  const std::string of_android = android_command_directory() + "/" + words.front();
  if (::access(of_android.c_str(), X_OK) == 0) {
    words.front() = of_android;
    path = android_path();
  }
  auto child =
      SpawnOptions({.input = in->read_end.get(), .errors = errors.get()}).start(words, path);
  if (!child) return fail(std::move(child).error());
  BackgroundCommand command(*child, std::move(errors));
  command.start_guard(temporary);
  return command;
}

BackgroundCommand::BackgroundCommand(BackgroundCommand&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), end_(other.end_), errors_(std::move(other.errors_)),
      guard_(std::exchange(other.guard_, -1)), lifeline_(std::move(other.lifeline_)) {}

BackgroundCommand::~BackgroundCommand() {
  using namespace std::chrono_literals;
  end(0ms);
}

// The parent-death signal would be lost when the command changes its SELinux domain. A process
// waits for the end of this one instead. If there can be none, the command may run on.
void BackgroundCommand::start_guard(const std::vector<std::string>& temporary) {
  const UniqueFd command = open_pidfd(pid_);
  auto life = make_pipe();
  if (!command || !life) return;
  const pid_t guard = ::fork();
  if (guard < 0) return;
  if (guard == 0) { // only async-signal-safe calls
    ::setpgid(0, 0);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, SIG_IGN);
    life->write_end.reset();
    char byte = 0;
    while (::read(life->read_end.get(), &byte, 1) < 0 && errno == EINTR) {
    }
    ::syscall(SYS_pidfd_send_signal, command.get(), SIGTERM, nullptr, 0);
    for (const std::string& path : temporary)
      if (::unlink(path.c_str()) != 0) ::rmdir(path.c_str());
    ::_exit(0);
  }
  guard_ = guard;
  lifeline_ = std::move(life->write_end);
}

void BackgroundCommand::end_guard() {
  if (guard_ < 0) return;
  ::kill(guard_, SIGKILL); // first: it must not signal a process that has the pid later
  lifeline_.reset();
  static_cast<void>(wait_for(std::exchange(guard_, -1)));
}

std::optional<ChildEnd> BackgroundCommand::find_end() {
  using namespace std::chrono_literals;
  if (pid_ < 0) return end_;
  end_ = wait_for(pid_, 0ms);
  if (end_) pid_ = -1;
  return end_;
}

std::string BackgroundCommand::read_errors() const {
  constexpr off_t most = 4096;
  const off_t size = ::lseek(errors_.get(), 0, SEEK_END);
  std::string text(static_cast<std::size_t>(std::clamp<off_t>(size, 0, most)), '\0');
  const ssize_t got =
      ::pread(errors_.get(), text.data(), text.size(), std::max<off_t>(size - most, 0));
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  return text;
}

void BackgroundCommand::terminate() const {
  if (pid_ > 0) ::kill(pid_, SIGTERM);
}

std::optional<ChildEnd> BackgroundCommand::end(std::chrono::milliseconds timeout) {
  end_guard();
  if (find_end() || pid_ < 0) return end_;
  terminate();
  if (const auto ended = wait_for(pid_, timeout)) {
    end_ = ended;
  } else {
    ::kill(pid_, SIGKILL); // it may have changed its process group
    ::kill(-pid_, SIGKILL);
    static_cast<void>(wait_for(pid_));
  }
  pid_ = -1;
  return end_;
}

} // namespace uprobectl::process
