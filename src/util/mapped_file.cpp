// SPDX-License-Identifier: Apache-2.0
#include "util/rooted_path.hpp"
#include "util/shrinking.hpp"

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <memory>
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
  auto file = open_regular_file(path);
  if (!file) return fail(std::move(file).error());
  const struct stat& status = file->status;
  Bytes bytes;
  if (status.st_size > 0) {
    const auto size = static_cast<std::size_t>(status.st_size);
    // The kernel places the breakpoints of others in private mappings too, even if nothing can be
    // executed there, but never in shared ones (kernel/events/uprobes.c, valid_vma). File systems
    // with direct I/O only, as FUSE may have, refuse shared ones.
    void* start = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file->fd.get(), 0);
    if (start == MAP_FAILED)
      start = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file->fd.get(), 0);
    if (start == MAP_FAILED) return fail(system_error(errno, path));
    bytes = {static_cast<const std::byte*>(start), size};
  }
  return MappedFile(std::move(file->fd), bytes, {status.st_dev, status.st_ino},
                    modification_ns(status), path);
}

MappedFile::MappedFile(UniqueFd fd, Bytes bytes, FileIdentity identity, std::int64_t modified_ns,
                       std::string path)
    : fd_(std::move(fd)), bytes_(bytes), identity_(identity), modified_ns_(modified_ns),
      path_(std::move(path)) {
  if (!bytes_.empty()) guard_mapping(bytes_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : fd_(std::move(other.fd_)), bytes_(std::exchange(other.bytes_, {})),
      identity_(other.identity_), modified_ns_(other.modified_ns_), path_(std::move(other.path_)) {}

MappedFile::~MappedFile() {
  if (bytes_.empty()) return;
  release_mapping(bytes_);
  ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

FileChange MappedFile::change() const {
  struct stat status{};
  if (::fstat(fd_.get(), &status) != 0 || modification_ns(status) != modified_ns_ ||
      static_cast<std::uint64_t>(status.st_size) != bytes_.size())
    return FileChange::written;
  const auto there = status_of(path_);
  const bool is_replaced =
      there ? FileIdentity{there->st_dev, there->st_ino} != identity_
            : there.error() == ENOENT || there.error() == ENOTDIR || there.error() == ESTALE;
  return is_replaced ? FileChange::replaced : FileChange::none;
}

Result<std::string> MappedFile::real_path() const {
  auto path = path_of_descriptor(fd_.get());
  if (!path) {
    // Without /proc, as in a small container or early at boot.
    if (path.error().kind != ErrorKind::not_found) return path;
    const std::unique_ptr<char, void (*)(void*)> real(::realpath(path_.c_str(), nullptr), ::free);
    if (real == nullptr) return fail(system_error(errno, path_));
    return std::string(real.get());
  }
  const auto rooted = in_process_root(path_);
  const bool is_mapping = path_.starts_with("/proc/") && path_.contains("/map_files/");
  if (path->ends_with(" (deleted)") || (!rooted && !is_mapping)) return path;
  const auto here = status_of(*path);
  if (here && FileIdentity{here->st_dev, here->st_ino} == identity_) return path;
  return rooted ? real_path_in(*rooted) : path_;
}

} // namespace uprobectl
