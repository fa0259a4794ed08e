#include "replaced_file.hpp"

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace uprobectl::cli {

namespace {

Result<void> write_to(const UniqueFd& file, const std::function<void(OutputBuffer&)>& write) {
  OutputBuffer out(file.get());
  write(out);
  out.flush();
  if (out.error()) return fail(*out.error());
  return {};
}

// Where links lead; the path itself where nothing is there yet.
std::string without_links(const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> real(::realpath(path.c_str(), nullptr), ::free);
  return real ? std::string(real.get()) : path;
}

mode_t mode_of_new_files() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return 0644 & ~mask;
}

} // namespace

Result<void> replace_file(const std::string& path,
                          const std::function<void(OutputBuffer&)>& write) {
  struct stat old{};
  struct stat link{};
  const bool is_there = ::stat(path.c_str(), &old) == 0;
  const bool leads_nowhere =
      !is_there && ::lstat(path.c_str(), &link) == 0 && S_ISLNK(link.st_mode);
  if (leads_nowhere || (is_there && !S_ISREG(old.st_mode))) {
    const int create = leads_nowhere ? O_CREAT : 0;
    const UniqueFd file{::open(path.c_str(), O_WRONLY | create | O_CLOEXEC | O_NOCTTY, 0644)};
    if (!file) return fail(system_error(errno, "cannot write " + path));
    return write_to(file, write);
  }
  const std::string place = without_links(path);
  std::string draft = place + ".XXXXXX";
  const UniqueFd file{::mkostemp(draft.data(), O_CLOEXEC)};
  if (!file) return fail(system_error(errno, "cannot write " + path));
  auto written = write_to(file, write);
  if (written) {
    // Who may not give it to its owner keeps it, and gives nobody their rights.
    const bool owned = !is_there || ::fchown(file.get(), old.st_uid, old.st_gid) == 0;
    const mode_t mode = is_there ? old.st_mode & (owned ? 07777U : 0777U) : mode_of_new_files();
    if (::fchmod(file.get(), mode) != 0 || ::rename(draft.c_str(), place.c_str()) != 0)
      written = fail(system_error(errno, "cannot replace " + path));
  }
  if (!written) ::unlink(draft.c_str());
  return written;
}

} // namespace uprobectl::cli
