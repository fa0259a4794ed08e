#include "bpf/descriptor_limit.hpp"

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

namespace uprobectl {

void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

Result<void> check_free_descriptors() {
  constexpr std::size_t needed = 48; // maps, programs, links, buffers and files of a small run
  raise_descriptor_limit();
  std::array<UniqueFd, needed> taken;
  for (UniqueFd& fd : taken) {
    fd = UniqueFd{::open("/", O_PATH | O_CLOEXEC)};
    if (fd) continue;
    if (errno != EMFILE && errno != ENFILE) return {}; // not about descriptors
    return fail(
        system_error(errno, "BPF needs " + std::to_string(needed) + " free file descriptors"));
  }
  return {};
}

} // namespace uprobectl
