// SPDX-License-Identifier: Apache-2.0
#include "output/export_file.hpp"

#include "output/output.hpp"
#include "util/descriptor_io.hpp"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

namespace uprobectl::output {

namespace {

constexpr int reader_timeout_ms = 5000;
// These are the modes of new files. An export has data of the probed process. Other files that
// replace_file() writes, such as a plan, have none.
constexpr mode_t export_mode = 0600;
constexpr mode_t plain_mode = 0644;

using WriteContent = std::function<Result<void>(int fd)>;

Result<void> write_text(int fd, const std::string& path, std::string_view text) {
  if (const auto written = write_all(fd, as_bytes(text)); !written)
    return fail(system_error(written.error(), path));
  return {};
}

// Returns the path with symbolic links resolved, or the path itself if the file does not exist yet.
std::string without_links(const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> real(::realpath(path.c_str(), nullptr), ::free);
  return real ? std::string(real.get()) : path;
}

// Returns the mode that open(2) would give a new file.
mode_t masked(mode_t mode) {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return mode & ~mask;
}

// Returns nullopt if the path names a regular file of this machine, or none yet. Otherwise opens
// it.
std::optional<Result<UniqueFd>> open_other(const std::string& path, mode_t new_mode,
                                           Workstation& workstation) {
  if (workstation.has(path)) {
    UniqueFd file = workstation.open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, new_mode);
    if (!file) return fail(system_error(errno, path));
    return file;
  }
  struct stat old{};
  struct stat link{};
  const bool is_there = ::stat(path.c_str(), &old) == 0;
  const bool is_dangling = !is_there && ::lstat(path.c_str(), &link) == 0 && S_ISLNK(link.st_mode);
  if (!is_dangling && (!is_there || S_ISREG(old.st_mode))) return std::nullopt;
  const int create = is_dangling ? O_CREAT : 0;
  UniqueFd file{::open(path.c_str(), O_WRONLY | create | O_CLOEXEC | O_NOCTTY, new_mode)};
  if (!file) return fail(system_error(errno, path));
  return file;
}

// Creates a file beside `target`, and sets `temporary` to its path. `path` is for errors.
Result<UniqueFd> create_beside(const std::string& target, const std::string& path,
                               std::string& temporary) {
  temporary = target + ".XXXXXX";
  UniqueFd file{::mkostemp(temporary.data(), O_CLOEXEC)};
  if (!file) return fail(system_error(errno, path));
  return file;
}

Result<void> replace_regular(const std::string& path, mode_t new_mode, const WriteContent& write) {
  struct stat old{};
  const bool is_there = ::stat(path.c_str(), &old) == 0;
  const std::string target = without_links(path);
  std::string temporary;
  const auto file = create_beside(target, path, temporary);
  if (!file) return fail(file.error());
  auto written = write(file->get());
  if (written) {
    // If the owner cannot be kept, drop the set-user-ID and set-group-ID bits.
    const bool owned = !is_there || ::fchown(file->get(), old.st_uid, old.st_gid) == 0;
    const mode_t mode = is_there ? old.st_mode & (owned ? 07777U : 0777U) : masked(new_mode);
    if (::fchmod(file->get(), mode) != 0 || ::rename(temporary.c_str(), target.c_str()) != 0)
      written = fail(system_error(errno, "cannot replace " + path));
  }
  if (!written) ::unlink(temporary.c_str());
  return written;
}

} // namespace

Result<void> replace_file(const std::string& path, const std::function<void(OutputBuffer&)>& write,
                          Workstation& workstation) {
  const auto write_to = [&](int fd) -> Result<void> {
    OutputBuffer out(fd);
    write(out);
    out.flush();
    if (out.error()) return fail(*out.error());
    return {};
  };
  if (const auto other = open_other(path, plain_mode, workstation)) {
    if (!*other) return fail(Error(other->error()).within("cannot write"));
    return write_to((*other)->get());
  }
  return replace_regular(path, plain_mode, write_to);
}

Result<ReplacedFile> ReplacedFile::open(const std::string& path, Workstation& workstation) {
  ReplacedFile file;
  file.path_ = path;
  if (auto other = open_other(path, export_mode, workstation)) {
    if (!*other) return fail(std::move(*other).error());
    file.fd_ = std::move(**other);
    return file;
  }
  std::string temporary;
  const auto created = create_beside(without_links(path), path, temporary);
  if (!created) return fail(created.error());
  ::unlink(temporary.c_str());
  return file;
}

Result<void> ReplacedFile::write(std::string_view content) const {
  if (fd_) return write_text(fd_.get(), path_, content);
  return replace_regular(path_, export_mode,
                         [&](int fd) { return write_text(fd, path_, content); });
}

Result<StreamedFile> StreamedFile::open(const std::string& path, Workstation& workstation) {
  StreamedFile file;
  file.path_ = path;
  const int flags = O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY;
  if (workstation.has(path)) {
    file.fd_ = workstation.open(path, flags | O_TRUNC, export_mode);
  } else {
    file.fd_ = workstation.open(path, flags | O_EXCL, export_mode);
    file.is_new_and_unused_ = static_cast<bool>(file.fd_);
    if (!file.fd_ && errno == EEXIST) file.fd_ = workstation.open(path, flags, export_mode);
  }
  if (!file.fd_) return fail(system_error(errno, path));
  file.is_regular_ = is_regular_file(file.fd_.get());
  return file;
}

StreamedFile::~StreamedFile() {
  if (fd_ && is_new_and_unused_) ::unlink(path_.c_str());
}

void StreamedFile::truncate() {
  is_new_and_unused_ = false;
  if (is_regular_ && ::ftruncate(fd_.get(), 0) != 0) set_error(system_error(errno, path_));
}

void StreamedFile::set_error(Error error) {
  error_ = std::move(error);
  pending_ = {};
  written_ = 0;
}

void StreamedFile::end_piece() {
  if (error_)
    pending_.clear();
  else if (pending_.size() - written_ >= flush_size)
    flush();
}

void StreamedFile::write_regular() {
  if (auto done = write_text(fd_.get(), path_, pending_); !done) {
    set_error(std::move(done).error());
    // Drop the part of a piece that has been written.
    static_cast<void>(!::ftruncate(fd_.get(), static_cast<off_t>(size_)));
    return;
  }
  size_ += pending_.size();
  pending_.clear();
}

bool StreamedFile::write_ready(int timeout_ms) {
  pollfd polled{.fd = fd_.get(), .events = POLLOUT, .revents = 0};
  if (::poll(&polled, 1, timeout_ms) <= 0) return false;
  const std::string_view rest = std::string_view(pending_).substr(written_, safe_write_size);
  const ssize_t size = ::write(fd_.get(), rest.data(), rest.size());
  if (size >= 0)
    written_ += static_cast<std::size_t>(size);
  else if (errno != EINTR && errno != EAGAIN)
    set_error(system_error(errno, path_));
  return true;
}

void StreamedFile::flush() {
  if (error_ || pending_.empty()) return;
  if (is_regular_) return write_regular();
  while (written_ < pending_.size() && write_ready(0)) {
  }
  if (written_ > pending_.size() / 2) {
    pending_.erase(0, written_);
    written_ = 0;
  }
  if (pending_.size() - written_ > max_pending)
    set_error({ErrorKind::io, path_ + ": nothing reads it, so the rest is not written"});
}

void StreamedFile::drain() {
  flush();
  while (!error_ && written_ < pending_.size())
    if (!write_ready(reader_timeout_ms))
      set_error({ErrorKind::io, path_ + ": nothing reads it, so the rest is not written"});
}

Result<void> StreamedFile::finish() {
  drain();
  if (error_) return fail(*error_);
  return {};
}

} // namespace uprobectl::output
