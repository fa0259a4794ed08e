// SPDX-License-Identifier: Apache-2.0
#include "util/file_version.hpp"

#include "util/clock.hpp"

#include <fcntl.h>
#include <sys/stat.h>

namespace uprobectl {

namespace {

std::int64_t nanoseconds_of(const struct statx_timestamp& time) {
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

std::optional<FileVersion> read_version_at(int folder, const char* path, int flags) {
  struct statx status{};
  if (::statx(folder, path, flags, STATX_BASIC_STATS | STATX_BTIME, &status) != 0)
    return std::nullopt;
  const bool has_created = (status.stx_mask & STATX_BTIME) != 0;
  return FileVersion{.size = status.stx_size,
                     .modified_ns = nanoseconds_of(status.stx_mtime),
                     .created_ns = has_created ? nanoseconds_of(status.stx_btime) : 0};
}

// A time that is still to come is one of before the clock was set back.
bool is_after(std::int64_t file_ns, std::uint64_t time_ns) {
  const auto passed = static_cast<std::int64_t>(clock_ns(CLOCK_MONOTONIC) - time_ns);
  // Read last: the file must not seem younger than it is.
  const std::int64_t age = static_cast<std::int64_t>(clock_ns(CLOCK_REALTIME)) - file_ns;
  return age >= 0 && age < passed;
}

} // namespace

std::optional<FileVersion> read_file_version(int fd) {
  return read_version_at(fd, "", AT_EMPTY_PATH);
}

std::optional<FileVersion> read_file_version(const std::string& path) {
  return read_version_at(AT_FDCWD, path.c_str(), 0);
}

bool was_created_after(const FileVersion& version, std::uint64_t time_ns) {
  return version.created_ns != 0 && is_after(version.created_ns, time_ns);
}

bool was_modified_after(const FileVersion& version, std::uint64_t time_ns) {
  return is_after(version.modified_ns, time_ns);
}

} // namespace uprobectl
