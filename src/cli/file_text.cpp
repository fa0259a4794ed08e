#include "file_text.hpp"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace uprobectl::cli {

namespace {

Error too_large(const std::string& path, std::size_t most) {
  return {ErrorKind::unsupported, path + ": over " + std::to_string(most >> 20U) + " MiB"};
}

Result<std::vector<char>> read_whole(int fd, const std::string& path, std::size_t most) {
  constexpr std::size_t step = 64 << 10;
  std::vector<char> text;
  for (;;) {
    const std::size_t begin = text.size();
    text.resize(begin + step);
    const ssize_t size = ::read(fd, text.data() + begin, step);
    if (size < 0 && errno != EINTR) return fail(system_error(errno, path));
    text.resize(begin + static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
    if (size == 0) return text;
    if (text.size() > most) return fail(too_large(path, most));
  }
}

bool is_regular(const std::string& path) {
  struct stat status{};
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

Result<void> write_to(const UniqueFd& file, const std::function<void(OutputBuffer&)>& write) {
  OutputBuffer out(file.get());
  write(out);
  out.flush();
  if (out.error()) return fail(*out.error());
  return {};
}

// The path with symbolic links resolved, or the path itself if the file does not exist yet.
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

Result<FileText> FileText::read(const std::string& path, std::size_t most) {
  FileText file;
  const bool is_stdin = path == "-";
  file.name_ = is_stdin ? "stdin" : path;
  if (!is_stdin && is_regular(path)) {
    auto mapped = MappedFile::open(path);
    if (!mapped) return fail(std::move(mapped).error());
    if (mapped->bytes().size() > most) return fail(too_large(path, most));
    file.mapped_ = std::make_unique<const MappedFile>(std::move(*mapped));
    return file;
  }
  const UniqueFd fd{is_stdin ? -1 : ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY)};
  if (!is_stdin && !fd) return fail(system_error(errno, path));
  auto text = read_whole(is_stdin ? STDIN_FILENO : fd.get(), path, most);
  if (!text) return fail(std::move(text).error());
  file.read_ = std::move(*text);
  return file;
}

std::string_view FileText::text() const {
  return mapped_ ? as_text(mapped_->bytes()) : std::string_view(read_.data(), read_.size());
}

Result<void> FileText::for_each_line(const VisitLine& visit) const {
  std::string_view rest = text();
  for (std::size_t number = 1; !rest.empty(); ++number) {
    const auto end = std::min(rest.find('\n'), rest.size());
    if (Result<void> done = visit(rest.substr(0, end)); !done)
      return fail(std::move(done).error().within(name_ + ", line " + std::to_string(number)));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return {};
}

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
    // If the owner cannot be kept, the file must not give its rights to others.
    const bool owned = !is_there || ::fchown(file.get(), old.st_uid, old.st_gid) == 0;
    const mode_t mode = is_there ? old.st_mode & (owned ? 07777U : 0777U) : mode_of_new_files();
    if (::fchmod(file.get(), mode) != 0 || ::rename(draft.c_str(), place.c_str()) != 0)
      written = fail(system_error(errno, "cannot replace " + path));
  }
  if (!written) ::unlink(draft.c_str());
  return written;
}

} // namespace uprobectl::cli
