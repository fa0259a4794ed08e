#include "process/command.hpp"

#include "process/child.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <unistd.h>

extern char** environ;

namespace uprobectl {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t most_output = 1U << 20;
constexpr std::string_view not_in_time = "did not end in time";

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

  Result<pid_t> start(const std::vector<std::string>& words) const {
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    pid_t child = -1;
    const int failed =
        ::posix_spawnp(&child, arguments[0], &actions_, &attributes_, arguments.data(), environ);
    if (failed != 0) return fail(system_error(failed, "cannot run " + words.front()));
    return child;
  }

private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

// What is there to be read goes to the text; false at the end.
bool take(int fd, std::string& text) {
  std::array<char, 16384> chunk{};
  const ssize_t size = ::read(fd, chunk.data(), chunk.size());
  if (size < 0) return errno == EINTR || errno == EAGAIN;
  text.append(chunk.data(), static_cast<std::size_t>(size));
  return size > 0;
}

// Reads both until they end; says what was wrong if they do not.
std::optional<std::string_view> read_both(Pipe& out, Pipe& err, CommandResult& result,
                                          Clock::time_point deadline) {
  while (out.read_end || err.read_end) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return not_in_time;
    // poll passes over descriptors that are -1.
    std::array polled = {pollfd{.fd = out.read_end.get(), .events = POLLIN, .revents = 0},
                         pollfd{.fd = err.read_end.get(), .events = POLLIN, .revents = 0}};
    if (::poll(polled.data(), polled.size(), static_cast<int>(left)) <= 0) continue;
    if (polled[0].revents != 0 && !take(out.read_end.get(), result.output)) out.read_end.reset();
    if (polled[1].revents != 0 && !take(err.read_end.get(), result.errors)) err.read_end.reset();
    if (result.output.size() + result.errors.size() > most_output) return "prints too much";
  }
  return std::nullopt;
}

} // namespace

Result<CommandResult> run_command(const std::vector<std::string>& words,
                                  std::chrono::milliseconds patience) {
  auto out = make_pipe();
  auto err = make_pipe();
  if (!out || !err) return fail(out ? err.error() : out.error());
  const auto child = SpawnPlan(out->write_end.get(), err->write_end.get()).start(words);
  if (!child) return fail(child.error());
  out->write_end.reset();
  err->write_end.reset();

  CommandResult result;
  const auto deadline = Clock::now() + patience;
  const auto wrong = read_both(*out, *err, result, deadline);
  // With its streams closed it may still run on.
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
  const auto ended = wrong ? std::nullopt : wait_for(*child, left);
  if (!ended) {
    ::kill(-*child, SIGKILL);
    wait_for(*child);
    return fail(ErrorKind::io, words.front() + " " + std::string(wrong.value_or(not_in_time)));
  }
  result.exit_code = *ended;
  return result;
}

} // namespace uprobectl
