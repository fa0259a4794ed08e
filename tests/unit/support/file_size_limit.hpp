// SPDX-License-Identifier: Apache-2.0
// Files that cannot grow: RLIMIT_FSIZE stands for a full file system.
#pragma once

#include <sys/resource.h>

namespace uprobectl::test {

// While it exists, no file of this process can grow beyond `bytes`. SIGXFSZ must be ignored.
class FileSizeLimit {
public:
  explicit FileSizeLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit lower{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &lower);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;
  ~FileSizeLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }

private:
  rlimit before_{};
};

} // namespace uprobectl::test
