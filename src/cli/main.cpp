#include "commands.hpp"

#include <csignal>
#include <cstdio>
#include <exception>
#include <fcntl.h>
#include <unistd.h>

using namespace uprobectl::cli;

namespace {

// A mapped file that is truncated raises SIGBUS on the next access to what is gone. Nothing can be
// saved then; only async-signal-safe calls are allowed.
void say_that_a_file_shrank(int) {
  constexpr char message[] = "uprobectl: error: a file changed size while it was being read\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, message, sizeof(message) - 1);
  ::_exit(static_cast<int>(ExitCode::failed));
}

// Whoever starts us with a standard descriptor closed must not find our messages in the next file
// opened, which would get its number. O_PATH keeps the number taken and still behaves as closed:
// write fails with EBADF, poll says POLLNVAL.
void hold_closed_descriptors() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(fd, F_GETFD) == -1) static_cast<void>(::open("/", O_PATH));
}

} // namespace

int main(int argc, char** argv) {
  hold_closed_descriptors();
  std::signal(SIGBUS, say_that_a_file_shrank);
  std::signal(SIGPIPE, SIG_IGN); // a reader that went away is seen as EPIPE
  try {
    return static_cast<int>(dispatch({argv + (argc > 0 ? 1 : 0), argv + argc}));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "uprobectl: error: internal error: %s\n", error.what());
    return static_cast<int>(ExitCode::failed);
  }
}
