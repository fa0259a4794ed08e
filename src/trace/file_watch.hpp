// SPDX-License-Identifier: Apache-2.0
// Watches the probed files while their probes are attached. The kernel keeps its breakpoints at
// offsets of an inode, whatever the file contains there by then. When a file is overwritten,
// they are in the middle of other code, and a process that maps the file afterwards runs into them.
#pragma once

#include "uprobectl/util.hpp"

#include <chrono>
#include <string>
#include <vector>

namespace uprobectl::trace {

// Who opens a watched file for writing has to wait until release_writers(), at most the time of
// /proc/sys/fs/lease-break-time (45 s): by a lease, fcntl(2), F_SETLEASE. The kernel refuses one
// for files that are open for writing already, for files of others without CAP_LEASE, and on some
// file systems. Writes to these are noticed when they have begun.
class FileWatch {
public:
  using Time = std::chrono::steady_clock::time_point;

  // Begins to watch the file, which is borrowed; one that is watched already is only checked. The
  // error is io: it was written to since it was opened, so its offsets may be wrong by now.
  Result<void> add(const MappedFile& file);
  // Returns the same error if one of the files is being written to.
  Result<void> check() const;

  struct Changed {
    const MappedFile* file = nullptr;
    FileChange change = FileChange::none; // never none
  };
  // Returns the files that have changed, each change once. Call it often: it looks from time to
  // time. Detach the probes of written files before release_writers().
  std::vector<Changed> look(Time now);
  // Lets those go on who want to write to the files that look() has returned.
  void release_writers();
  // The error for a file whose probes were detached because of this. `reason`: "the file was opened
  // for writing after 2 s, so its probes were detached".
  static Error detached_error(const MappedFile& file, const std::string& reason);

private:
  struct Watched {
    const MappedFile* file = nullptr;
    UniqueFd lease; // invalid if the kernel gave none
    FileChange reported = FileChange::none;

    FileChange change() const;
  };
  std::vector<Watched> files_;
  Time next_;
};

} // namespace uprobectl::trace
