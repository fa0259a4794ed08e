#include "session/watch.hpp"

#include "uprobectl/process.hpp"

#include <cerrno>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

namespace uprobectl {

namespace {

sigset_t watched_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGCONT); // it continues a stopped process even if it is blocked (signal(7))
  // Under nohup it is ignored already, and stays so.
  struct sigaction hangup{};
  if (::sigaction(SIGHUP, nullptr, &hangup) != 0 || hangup.sa_handler != SIG_IGN)
    sigaddset(&set, SIGHUP);
  return set;
}

// Only async-signal-safe calls.
void end_at_once(int /*signal*/) {
  constexpr std::string_view message =
      "uprobectl: error: interrupted while the functions were looked up, nothing was attached\n";
  static_cast<void>(!::write(STDERR_FILENO, message.data(), message.size()));
  constexpr int interrupted = 130;
  ::_exit(interrupted);
}

bool is_readable(int fd) {
  pollfd polled{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&polled, 1, 0) > 0;
}

} // namespace

Result<SignalWatch> SignalWatch::start() {
  const sigset_t set = watched_signals();
  sigset_t previous;
  ::sigprocmask(SIG_BLOCK, &set, &previous);
  UniqueFd fd{::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)};
  if (!fd) {
    const int error = errno;
    ::sigprocmask(SIG_SETMASK, &previous, nullptr);
    return fail(system_error(error, "cannot watch for signals"));
  }
  return SignalWatch(std::move(fd), previous);
}

SignalWatch::SignalWatch(SignalWatch&& other) noexcept = default;

SignalWatch::~SignalWatch() {
  if (!fd_) return; // moved from
  arrived();
  ::sigprocmask(SIG_SETMASK, &previous_, nullptr);
}

void SignalWatch::read_all() {
  signalfd_siginfo info;
  while (::read(fd_.get(), &info, sizeof(info)) == sizeof(info))
    if (info.ssi_signo == SIGCONT)
      continued_ = true;
    else
      ++count_;
}

bool SignalWatch::arrived() { return count() > 0; }

std::uint64_t SignalWatch::count() {
  read_all();
  return count_;
}

bool SignalWatch::continued() {
  read_all();
  return std::exchange(continued_, false);
}

EndsOnSignal::EndsOnSignal() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const sigset_t watched = watched_signals();
    if (sigismember(&watched, signal) != 1) continue;
    struct sigaction action{};
    action.sa_handler = end_at_once;
    struct sigaction before{};
    if (::sigaction(signal, &action, &before) != 0) continue;
    actions_before_.emplace_back(signal, before);
    sigaddset(&set, signal);
  }
  ::pthread_sigmask(SIG_UNBLOCK, &set, &mask_before_);
}

EndsOnSignal::~EndsOnSignal() {
  ::pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
  for (const auto& [signal, before] : actions_before_) ::sigaction(signal, &before, nullptr);
}

Result<ProcessWatch> ProcessWatch::start(std::span<const pid_t> pids) {
  ProcessWatch watch;
  for (const pid_t pid : pids) {
    // Linux 5.3; the C library of Debian 12 wraps it, older ones and Android's do not.
    UniqueFd fd{static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))};
    // A thread's id is refused with EINVAL, by newer kernels with ENOENT.
    if (!fd && (errno == ESRCH || errno == EINVAL || errno == ENOENT)) {
      if (command_name(pid))
        return fail(
            Error{ErrorKind::not_found, std::to_string(pid) + " is a thread, no process"}.hint(
                "-p takes the process: Tgid in /proc/" + std::to_string(pid) + "/status"));
      return fail(ErrorKind::not_found, "no process with pid " + std::to_string(pid));
    }
    if (!fd) return fail(system_error(errno, "cannot watch process " + std::to_string(pid)));
    std::string text = "process " + std::to_string(pid);
    if (const auto name = command_name(pid)) text += " (" + *name + ")";
    watch.running_.push_back({std::move(text), std::move(fd)});
    watch.watches_ = true;
  }
  return watch;
}

bool ProcessWatch::all_gone() {
  std::erase_if(running_, [this](const Running& process) {
    if (!is_readable(process.fd.get())) return false;
    ended_.push_back(process.name);
    return true;
  });
  return watches_ && running_.empty();
}

void ProcessWatch::add_to(std::vector<pollfd>& polled) const {
  for (const Running& process : running_)
    polled.push_back({.fd = process.fd.get(), .events = POLLIN, .revents = 0});
}

} // namespace uprobectl
