// SPDX-License-Identifier: Apache-2.0
// The location of tracefs, and the names of our events in it.
#pragma once

#include "uprobectl/util.hpp"

#include <sys/types.h>

namespace uprobectl::bpf {

// Returns the folder that contains uprobe_events; nullopt if tracefs is not mounted.
std::optional<std::string> find_tracefs();

// Whether a file of tracefs contains 0, for example tracing_on after a kernel oops. Returns false
// if the file cannot be read.
bool is_switched_off(const std::string& path);

// The process that created an event, encoded in the event's group: uprobe_events itself does not
// show it. A pid alone could be reused, or be that of another pid namespace.
struct EventOwner {
  std::uint64_t pid_namespace = 0; // inode number of /proc/self/ns/pid
  pid_t pid = 0;
  std::uint64_t start_time = 0; // clock ticks since boot: field 22 of /proc/PID/stat
  bool operator==(const EventOwner&) const = default;

  static EventOwner self();
  // Parses "uprobectl_NAMESPACE_PID_TIME"; nullopt for other groups.
  static std::optional<EventOwner> parse_group(std::string_view group);

  // Less than 64 bytes, as the kernel requires: at most 10 + 10 + 1 + 10 + 1 + 20 (the numbers of
  // namespaces are 32 bits wide).
  std::string group() const;
  // Whether it has ended; false if it is in another pid namespace.
  bool has_ended() const;
};

} // namespace uprobectl::bpf
