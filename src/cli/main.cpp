#include "commands.hpp"
#include "uprobectl/base/shrinking.hpp"

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fcntl.h>
#include <new>
#include <sys/resource.h>
#include <system_error>
#include <unistd.h>

using namespace uprobectl::cli;

namespace {

// Whoever starts us with a standard descriptor closed must not find our messages in the next file
// opened, which would get its number. O_PATH keeps the number taken and still behaves as closed:
// write fails with EBADF, poll says POLLNVAL.
void hold_closed_descriptors() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(fd, F_GETFD) == -1) static_cast<void>(::open("/", O_PATH));
}

// What the deepest of our parsers and the demangler take, with room to spare. The kernel ends a
// process that runs out of stack by a signal.
constexpr rlim_t least_stack = 512UL << 10;

bool has_enough_stack() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= least_stack) return true;
  std::fprintf(stderr,
               "uprobectl: error: the limit of the stack is %ju KiB, at least %ju are needed\n"
               "  hint: raise it, for example: ulimit -s 8192\n",
               static_cast<std::uintmax_t>(limit.rlim_cur >> 10),
               static_cast<std::uintmax_t>(least_stack >> 10));
  return false;
}

} // namespace

int main(int argc, char** argv) {
  hold_closed_descriptors();
  uprobectl::handle_shrinking_files();
  std::signal(SIGPIPE, SIG_IGN); // a reader that went away is seen as EPIPE
  std::signal(SIGXFSZ, SIG_IGN); // a file beyond `ulimit -f` is seen as EFBIG
  if (!has_enough_stack()) return static_cast<int>(ExitCode::failed);
  try {
    return static_cast<int>(dispatch({argv + (argc > 0 ? 1 : 0), argv + argc}));
  } catch (const std::bad_alloc&) {
    std::fputs("uprobectl: error: not enough memory\n"
               "  hint: raise the limit of memory: ulimit -v, or memory.max of the control group\n",
               stderr);
    return static_cast<int>(ExitCode::failed);
  } catch (const std::system_error& error) {
    std::fprintf(stderr, "uprobectl: error: %s\n", error.what());
    return static_cast<int>(ExitCode::failed);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "uprobectl: error: internal error: %s\n", error.what());
    return static_cast<int>(ExitCode::failed);
  }
}
