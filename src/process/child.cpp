#include "process/child.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace uprobectl {

namespace {

using namespace std::chrono_literals;

std::optional<ChildEnd> reap(pid_t child, int flags) {
  int status = 0;
  pid_t ended = 0;
  do ended = ::waitpid(child, &status, flags);
  while (ended < 0 && errno == EINTR);
  if (ended != child) return std::nullopt;
  if (WIFSIGNALED(status)) return ChildEnd{.signal = WTERMSIG(status)};
  return ChildEnd{.status = WEXITSTATUS(status)};
}

} // namespace

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail(system_error(errno, "cannot make a pipe"));
  return Pipe{UniqueFd{ends[0]}, UniqueFd{ends[1]}};
}

std::optional<ChildEnd> wait_for(pid_t child) { return reap(child, 0); }

std::optional<ChildEnd> wait_for(pid_t child, std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  // What has closed its streams has mostly ended a moment later.
  std::chrono::microseconds pause = 100us;
  for (;;) {
    if (const auto status = reap(child, WNOHANG)) return status;
    const auto left =
        std::chrono::ceil<std::chrono::microseconds>(deadline - std::chrono::steady_clock::now());
    if (left <= 0us) return std::nullopt;
    std::this_thread::sleep_for(std::min(pause, left));
    pause = std::min<std::chrono::microseconds>(pause * 2, 10ms);
  }
}

} // namespace uprobectl
