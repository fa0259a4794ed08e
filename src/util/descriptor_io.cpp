// SPDX-License-Identifier: Apache-2.0
#include "util/descriptor_io.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace uprobectl {

std::expected<void, int> write_all(int fd, Bytes bytes,
                                   std::optional<std::chrono::milliseconds> timeout) {
  constexpr std::size_t ready_bytes = 256; // a terminal that is ready takes so many
  while (!bytes.empty()) {
    std::size_t size = bytes.size();
    if (timeout) {
      pollfd polled{.fd = fd, .events = POLLOUT, .revents = 0};
      const int ready = ::poll(&polled, 1, static_cast<int>(timeout->count()));
      if (ready == 0) return std::unexpected(ETIMEDOUT);
      if (ready < 0 && errno != EINTR) return std::unexpected(errno);
      if (ready < 0) continue;
      size = std::min(size, ready_bytes);
    }
    const ssize_t written = ::write(fd, bytes.data(), size);
    if (written < 0 && (errno == EINTR || (timeout && errno == EAGAIN))) continue;
    if (written < 0) return std::unexpected(errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

std::expected<std::string, int> read_up_to(int fd, std::size_t max_size) {
  constexpr std::size_t step = 64 << 10;
  std::string read;
  for (;;) {
    const std::size_t begin = read.size();
    read.resize(begin + std::min(step, max_size - begin));
    const ssize_t got = ::read(fd, read.data() + begin, read.size() - begin);
    const int errnum = got < 0 ? errno : 0;
    read.resize(begin + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (errnum == EINTR) continue;
    if (errnum != 0) return std::unexpected(errnum);
    if (got == 0) return read;
  }
}

bool is_regular_file(int fd) {
  struct stat status{};
  return ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

std::expected<void, int> check_free_descriptors(std::size_t count) {
  std::vector<UniqueFd> taken;
  while (taken.size() < count) {
    UniqueFd fd{::open("/", O_PATH | O_CLOEXEC)};
    if (!fd && (errno == EMFILE || errno == ENFILE)) return std::unexpected(errno);
    if (!fd) return {}; // not about descriptors
    taken.push_back(std::move(fd));
  }
  return {};
}

} // namespace uprobectl
