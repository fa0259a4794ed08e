// Processes held by pidfd_open(2): a later process of the same number is not mistaken for one.
#pragma once

#include "uprobectl/util.hpp"

#include <poll.h>
#include <sys/types.h>
#include <vector>

namespace uprobectl {

// Sets errno on failure: ENOSYS before Linux 5.3; ESRCH, EINVAL or ENOENT if there is no such
// process, or the number is that of a thread.
UniqueFd open_pidfd(pid_t pid);

class ProcessHandle {
public:
  explicit ProcessHandle(pid_t pid);

  pid_t pid() const { return pid_; }
  // The errno of open_pidfd(); 0 if the process is held.
  int open_error() const { return open_error_; }
  // Goes by the number alone if the process could not be held.
  bool has_ended() const;
  // Readable when it has ended.
  void add_to(std::vector<pollfd>& polled) const;

private:
  pid_t pid_;
  UniqueFd fd_;
  int open_error_;
};

} // namespace uprobectl
