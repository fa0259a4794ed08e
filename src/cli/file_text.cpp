#include "file_text.hpp"

#include <algorithm>
#include <cerrno>
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

} // namespace uprobectl::cli
