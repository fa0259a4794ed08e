#include "commands.hpp"
#include "uprobectl/base/shrinking.hpp"

#include <csignal>
#include <cstdio>
#include <exception>
#include <fcntl.h>
#include <new>
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

} // namespace

int main(int argc, char** argv) {
  hold_closed_descriptors();
  uprobectl::handle_shrinking_files();
  std::signal(SIGPIPE, SIG_IGN); // a reader that went away is seen as EPIPE
  std::signal(SIGXFSZ, SIG_IGN); // a file beyond `ulimit -f` is seen as EFBIG
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
