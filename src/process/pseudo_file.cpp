#include "process/pseudo_file.hpp"

#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

namespace uprobectl {

std::string proc_path(pid_t pid, std::string_view name) {
  return "/proc/" + std::to_string(pid) + "/" + std::string(name);
}

Result<std::string> read_pseudo_file(const std::string& path) {
  const UniqueFd fd{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY)};
  if (!fd) return fail(system_error(errno, path));
  std::string text;
  char chunk[16384];
  for (;;) {
    const ssize_t size = ::read(fd.get(), chunk, sizeof(chunk));
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return fail(system_error(errno, path));
    if (size == 0) return text;
    text.append(chunk, static_cast<std::size_t>(size));
  }
}

std::optional<std::string> pseudo_file_text(const std::string& path) {
  auto text = read_pseudo_file(path);
  if (!text) return std::nullopt;
  return std::move(*text);
}

} // namespace uprobectl
