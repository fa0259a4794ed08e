// Where the tracing file system is, and the names that events of ours have in it.
#pragma once

#include "uprobectl/util.hpp"

#include <sys/types.h>

namespace uprobectl {

// The folder with uprobe_events in it; nothing if none can be seen.
std::optional<std::string> find_tracefs();

// Text of uprobe_events says nothing about who made an event: for ours the group does. A process
// id alone would, after a while, name somebody else, and in another pid namespace it does at once.
struct EventOwner {
  std::uint64_t pid_namespace = 0; // inode number of /proc/self/ns/pid
  pid_t pid = 0;
  std::uint64_t start_time = 0; // clock ticks since boot: field 22 of /proc/PID/stat
  bool operator==(const EventOwner&) const = default;

  static EventOwner self();
  // Of "uprobectl_NAMESPACE_PID_TIME"; nothing for a group that is not ours.
  static std::optional<EventOwner> of_group(std::string_view group);

  // Less than 64 bytes, as the kernel wants it: at most 10 + 10 + 1 + 10 + 1 + 20 (the numbers of
  // namespaces are 32 bits wide).
  std::string group() const;
  // Gone, and this process is in a position to know.
  bool has_ended() const;
};

} // namespace uprobectl
