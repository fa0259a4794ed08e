// SPDX-License-Identifier: Apache-2.0
#include "process/command.hpp"

#include "process/child.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

extern char** environ;

namespace uprobectl {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t max_output = 1U << 20;
constexpr std::string_view not_in_time = "did not end in time";
constexpr std::string_view prints_too_much = "prints too much";
constexpr std::string_view interrupted = "was ended by a signal to us";

// How a child is to be started: as C has it, but released at the end.
class SpawnPlan {
public:
  SpawnPlan(int output, int errors) {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&actions_, output, STDOUT_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions_, errors, STDERR_FILENO);
    // Signals that we ignore or hold back are none of the child's business, and in a group of its
    // own it can be killed with its children.
    sigset_t none;
    sigset_t ignored;
    sigemptyset(&none);
    sigemptyset(&ignored);
    sigaddset(&ignored, SIGPIPE);
    sigaddset(&ignored, SIGXFSZ);
    ::posix_spawnattr_init(&attributes_);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setsigdefault(&attributes_, &ignored);
    ::posix_spawnattr_setpgroup(&attributes_, 0);
    ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                                 POSIX_SPAWN_SETPGROUP);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;
  ~SpawnPlan() {
    ::posix_spawn_file_actions_destroy(&actions_);
    ::posix_spawnattr_destroy(&attributes_);
  }

  // With a PATH of its own unless that is empty.
  Result<pid_t> start(const std::vector<std::string>& words, const std::string& path) const {
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    std::string own_path = "PATH=" + path;
    std::vector<char*> variables;
    for (char** variable = environ; *variable != nullptr; ++variable)
      if (path.empty() || !std::string_view(*variable).starts_with("PATH="))
        variables.push_back(*variable);
    if (!path.empty()) variables.push_back(own_path.data());
    variables.push_back(nullptr);
    pid_t child = -1;
    const int failed = ::posix_spawnp(&child, arguments[0], &actions_, &attributes_,
                                      arguments.data(), variables.data());
    if (failed != 0) return fail(system_error(failed, "cannot run " + words.front()));
    return child;
  }

private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

using Take = std::function<bool(std::string_view chunk)>;

enum class Took { some, end, refused };

Took take(int fd, const Take& hand_on) {
  std::array<char, 16384> chunk{};
  const ssize_t size = ::read(fd, chunk.data(), chunk.size());
  if (size < 0) return errno == EINTR || errno == EAGAIN ? Took::some : Took::end;
  if (size == 0) return Took::end;
  return hand_on({chunk.data(), static_cast<std::size_t>(size)}) ? Took::some : Took::refused;
}

// The signals that ask us to end. The terminal's do not reach a group that is not in its
// foreground, and others only us: while a command runs they are held back, so that it can be ended
// before we are. They stay pending, and do what they are to do when this is gone.
class HeldSignals {
public:
  HeldSignals() {
    sigset_t held;
    sigemptyset(&held);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
      struct sigaction action{};
      // Held back, those that are ignored (nohup) would be pending, too.
      if (::sigaction(signal, nullptr, &action) == 0 && action.sa_handler != SIG_IGN)
        sigaddset(&held, signal);
    }
    ::pthread_sigmask(SIG_BLOCK, &held, &before_);
    pending_ = UniqueFd{::signalfd(-1, &held, SFD_CLOEXEC | SFD_NONBLOCK)};
  }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;
  ~HeldSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  int fd() const { return pending_.get(); } // readable once there is one; never read

private:
  sigset_t before_{};
  UniqueFd pending_;
};

// A started program, the leader of its group: with all that is left of it it ends with this.
class Running {
public:
  explicit Running(pid_t leader) : leader_(leader), ended_fd_(open_pidfd(leader)) {}
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  ~Running() { end(); }

  // Not reaped before end(): until then no other group can have its number.
  bool has_ended() {
    if (has_ended_) return true;
    siginfo_t info{};
    has_ended_ =
        ::waitid(P_PID, static_cast<id_t>(leader_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        info.si_pid == leader_;
    if (has_ended_) ended_fd_.reset(); // or poll would tell it again and again
    return has_ended_;
  }
  int fd() const { return ended_fd_.get(); } // readable when it has ended; -1 also before Linux 5.3
  bool must_be_asked() const { return !has_ended_ && !ended_fd_; }

  // Its exit status.
  int end() {
    if (leader_ < 0) return 0;
    ::kill(leader_, SIGKILL); // it may have gone to another group
    ::kill(-leader_, SIGKILL);
    return wait_for(std::exchange(leader_, -1)).value_or(ChildEnd()).shell_status();
  }

private:
  pid_t leader_;
  UniqueFd ended_fd_;
  bool has_ended_ = false;
};

// Reads both until they end and the program has; says what was wrong if they do not. What it leaves
// running may hold them open for ever: then until nothing has come for a while.
std::optional<std::string_view> read_both(Running& program, const HeldSignals& signals, Pipe& out,
                                          Pipe& err, const Take& take_output,
                                          const Take& take_errors, Clock::time_point deadline) {
  constexpr std::chrono::seconds silence{1};
  constexpr std::chrono::milliseconds pause{10}; // between looks where there is no pidfd
  // What is there to be read is handed on; false where that is refused.
  const auto took_from = [](UniqueFd& end, const Take& hand_on) {
    const Took took = take(end.get(), hand_on);
    if (took == Took::end) end.reset();
    return took != Took::refused;
  };
  std::optional<Clock::time_point> silent_since; // and ended
  for (;;) {
    const auto now = Clock::now();
    if (program.has_ended()) {
      if (!out.read_end && !err.read_end) return std::nullopt;
      if (!silent_since) silent_since = now;
      if (now - *silent_since >= silence) return std::nullopt;
    }
    if (now >= deadline) return not_in_time;
    auto until = silent_since ? std::min(deadline, *silent_since + silence) : deadline;
    if (program.must_be_asked()) until = std::min(until, now + pause);
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - now).count();
    // poll passes over descriptors that are -1.
    std::array polled = {pollfd{.fd = out.read_end.get(), .events = POLLIN, .revents = 0},
                         pollfd{.fd = err.read_end.get(), .events = POLLIN, .revents = 0},
                         pollfd{.fd = program.fd(), .events = POLLIN, .revents = 0},
                         pollfd{.fd = signals.fd(), .events = POLLIN, .revents = 0}};
    if (::poll(polled.data(), polled.size(), static_cast<int>(left)) <= 0) continue;
    if (polled[3].revents != 0) return interrupted;
    if (polled[0].revents != 0 && !took_from(out.read_end, take_output)) return prints_too_much;
    if (polled[1].revents != 0 && !took_from(err.read_end, take_errors)) return prints_too_much;
    if ((polled[0].revents | polled[1].revents) != 0) silent_since.reset();
  }
}

Result<CommandResult> run(const std::vector<std::string>& words, std::chrono::milliseconds patience,
                          const Take& take_output, const std::string& path = {}) {
  auto out = make_pipe();
  auto err = make_pipe();
  if (!out || !err) return fail(out ? err.error() : out.error());
  const HeldSignals signals;
  const auto child = SpawnPlan(out->write_end.get(), err->write_end.get()).start(words, path);
  if (!child) return fail(child.error());
  Running program(*child);
  out->write_end.reset();
  err->write_end.reset();

  CommandResult result;
  bool silent = true;
  const auto watched_output = [&](std::string_view chunk) {
    silent = false;
    return take_output(chunk);
  };
  const auto take_errors = [&](std::string_view chunk) {
    silent = false;
    result.errors += chunk;
    return result.errors.size() <= max_output;
  };
  const auto wrong =
      read_both(program, signals, *out, *err, watched_output, take_errors, Clock::now() + patience);
  if (wrong) return fail(ErrorKind::io, words.front() + " " + std::string(*wrong));
  result.exit_code = program.end();
  // POSIX leaves posix_spawn two ways to tell that a program cannot be run: at once, or (under
  // qemu-user) as the status of a child that has said nothing.
  if (silent && result.exit_code == 127)
    return fail(system_error(ENOENT, "cannot run " + words.front()));
  return result;
}

// Overrides where Android's commands are, for tests.
std::string android_commands() {
  const char* chosen = std::getenv("UPROBECTL_ANDROID_COMMANDS");
  return chosen != nullptr && *chosen == '/' ? chosen : "/system/bin";
}

} // namespace

Result<CommandResult> run_android_command(std::vector<std::string> words,
                                          std::chrono::milliseconds patience) {
  const std::string folder = android_commands();
  words.front() = folder + "/" + words.front();
  std::string output;
  // pm is a script: its commands are looked for in the system's folders, too.
  auto result = run(
      words, patience,
      [&](std::string_view chunk) {
        output += chunk;
        return output.size() <= max_output;
      },
      folder + ":/system/bin:/usr/bin:/bin");
  if (result) result->output = std::move(output);
  return result;
}

Result<CommandResult> run_command(const std::vector<std::string>& words,
                                  std::chrono::milliseconds patience) {
  std::string output;
  auto result = run(words, patience, [&](std::string_view chunk) {
    output += chunk;
    return output.size() <= max_output;
  });
  if (result) result->output = std::move(output);
  return result;
}

Result<CommandResult> stream_command(const std::vector<std::string>& words,
                                     std::chrono::milliseconds patience, std::size_t most,
                                     const std::function<bool(std::string_view chunk)>& take) {
  std::size_t taken = 0;
  return run(words, patience, [&](std::string_view chunk) {
    taken += chunk.size();
    return taken <= most && take(chunk);
  });
}

} // namespace uprobectl
