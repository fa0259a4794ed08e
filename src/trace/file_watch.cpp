// SPDX-License-Identifier: Apache-2.0
#include "trace/file_watch.hpp"

#include "trace/paced_look.hpp"
#include "util/mapped_file.hpp"

#include <algorithm>
#include <csignal>
#include <fcntl.h>
#include <fmt/format.h>

namespace uprobectl::trace {

namespace {

using Clock = std::chrono::steady_clock;

// A writer waits about as long.
constexpr std::chrono::milliseconds file_look_interval{40};

// A lease belongs to an open file, so it gets one of its own: that of `file` may be shared.
UniqueFd take_lease(const MappedFile& file) {
  UniqueFd own(::open(fmt::format("/proc/self/fd/{}", file.fd()).c_str(), O_RDONLY | O_CLOEXEC));
  // SIGIO, which the kernel sends by default, would end this program; SIGURG is ignored.
  if (!own || ::fcntl(own.get(), F_SETSIG, SIGURG) != 0 ||
      ::fcntl(own.get(), F_SETLEASE, F_RDLCK) != 0)
    own.reset();
  return own;
}

Error written_error(const MappedFile& file) {
  return Error{ErrorKind::io, file.path() + ": was written to while it was being read"}.hint(
      "try again when the file is completely written");
}

} // namespace

// A file that was to be written stays a written one. While somebody waits to open it, the kernel
// names the lease that it wants.
FileChange FileWatch::Watched::change() const {
  if (reported == FileChange::written) return FileChange::written;
  if (lease && ::fcntl(lease.get(), F_GETLEASE) != F_RDLCK) return FileChange::written;
  return file->change();
}

Result<void> FileWatch::add(const MappedFile& file) {
  auto found = std::ranges::find_if(
      files_, [&](const Watched& each) { return each.file->identity() == file.identity(); });
  if (found == files_.end())
    found = files_.insert(found, {.file = &file, .lease = take_lease(file)});
  // After the lease: nothing is written between the two.
  if (found->change() == FileChange::written) return fail(written_error(file));
  return {};
}

Result<void> FileWatch::check() const {
  for (const Watched& each : files_)
    if (each.change() == FileChange::written) return fail(written_error(*each.file));
  return {};
}

std::vector<FileWatch::Changed> FileWatch::look(Time now) {
  std::vector<Changed> changes;
  if (now < next_) return changes;
  for (Watched& each : files_) {
    const FileChange change = each.change();
    if (change == FileChange::none || change == each.reported) continue;
    each.reported = change;
    changes.push_back({.file = each.file, .change = change});
  }
  next_ = next_look_after(now, Clock::now(), file_look_interval);
  return changes;
}

void FileWatch::release_writers() {
  for (Watched& each : files_)
    if (each.reported == FileChange::written) each.lease.reset();
}

Error FileWatch::detached_error(const MappedFile& file, const std::string& reason) {
  return Error{ErrorKind::io, file.path() + ": " + reason}.hint(
      "breakpoints at the old offsets would harm the processes that map the new content: run the "
      "command again when the file is completely written");
}

} // namespace uprobectl::trace
