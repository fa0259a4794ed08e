#include "uprobectl/base.hpp"

#include <cerrno>
#include <climits>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace uprobectl {

UniqueFd& UniqueFd::operator=(UniqueFd&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

void UniqueFd::reset() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

namespace {

std::int64_t modification_ns(const struct stat& status) {
  return std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
}

} // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
  // O_NONBLOCK: opening a FIFO must fail below instead of waiting for a writer.
  UniqueFd fd{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)};
  if (!fd) return fail(system_error(errno, path));

  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) return fail(system_error(errno, path));
  if (S_ISDIR(status.st_mode)) return fail(ErrorKind::io, path + ": is a directory, not a file");
  if (!S_ISREG(status.st_mode)) return fail(ErrorKind::io, path + ": not a regular file");

  Bytes bytes;
  if (status.st_size > 0) {
    const auto size = static_cast<std::size_t>(status.st_size);
    void* start = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
    if (start == MAP_FAILED) return fail(system_error(errno, path));
    bytes = {static_cast<const std::byte*>(start), size};
  }
  return MappedFile(std::move(fd), bytes, {status.st_dev, status.st_ino}, modification_ns(status),
                    path);
}

MappedFile::MappedFile(UniqueFd fd, Bytes bytes, FileIdentity identity, std::int64_t modified_ns,
                       std::string path)
    : fd_(std::move(fd)), bytes_(bytes), identity_(identity), modified_ns_(modified_ns),
      path_(std::move(path)) {}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : fd_(std::move(other.fd_)), bytes_(std::exchange(other.bytes_, {})),
      identity_(other.identity_), modified_ns_(other.modified_ns_), path_(std::move(other.path_)) {}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

FileChange MappedFile::change() const {
  struct stat status{};
  if (::fstat(fd_.get(), &status) != 0 || modification_ns(status) != modified_ns_ ||
      static_cast<std::uint64_t>(status.st_size) != bytes_.size())
    return FileChange::written;
  if (::stat(path_.c_str(), &status) != 0 ||
      FileIdentity{status.st_dev, status.st_ino} != identity_)
    return FileChange::replaced;
  return FileChange::none;
}

Result<std::string> MappedFile::real_path() const {
  const std::string link = "/proc/self/fd/" + std::to_string(fd_.get());
  std::string target(PATH_MAX, '\0');
  const ssize_t length = ::readlink(link.c_str(), target.data(), target.size());
  if (length < 0) return fail(system_error(errno, path_));
  target.resize(static_cast<std::size_t>(length));
  return target;
}

} // namespace uprobectl
