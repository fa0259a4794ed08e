// SPDX-License-Identifier: Apache-2.0
// The uprobes of this machine, whoever put them there: BPF links and perf events, asked of the
// kernel, and the events of tracefs. Reads only.
#pragma once

#include "uprobectl/util.hpp"

#include <span>
#include <sys/types.h>

namespace uprobectl {

struct ProbeHolder {
  pid_t pid = 0;
  std::string comm; // empty if it has just ended
  auto operator<=>(const ProbeHolder&) const = default;
};

struct InstalledProbe {
  std::string mechanism; // "multi", "perf", "tracefs"
  std::string file;      // as the kernel knows it
  std::optional<std::string> entry;
  FileOffset offset;
  bool on_return = false;
  std::optional<std::string> symbol;  // "f+0x4", demangled; nothing where the file does not tell
  std::optional<pid_t> filter;        // nothing: every process is probed, or it is not told
  std::vector<ProbeHolder> holders;   // whose descriptors keep it, by pid
  std::optional<std::string> program; // the BPF program's name
  std::optional<std::string> event;   // tracefs: "group/name"
  // Nobody is seen to hold it: a pinned link, or a disabled event without a BPF program.
  bool leftover = false;
};

// An event of tracefs' uprobe_events.
struct TracefsEvent {
  std::string name; // "group/name"
  bool on_return = false;
  std::string path;
  FileOffset offset;
};

// The text of uprobe_events: "p:group/name PATH:0xOFFSET(0xREF) ARGS…", a line each (Linux
// Documentation/trace/uprobetracer.rst). Lines of another form are counted.
struct ListedEvents {
  std::vector<TracefsEvent> events;
  std::size_t unknown_lines = 0;
};
ListedEvents parse_uprobe_events(std::string_view text);

// What was found, by file and offset, and what could not be looked at.
struct Inventory {
  std::vector<InstalledProbe> probes;
  std::vector<std::string> warnings;
};
// not_permitted without CAP_SYS_ADMIN.
Result<Inventory> read_inventory();

// SPDX-License-Identifier: Apache-2.0
// From a file and an offset to the names people know.

// Fills in entry and symbol if the file can be read and names the place. Files that many probes lie
// in are read once. A file of another mount namespace gets the path that leads to it from here.
// Returns warnings: of a path that leads to different files nothing is read.
std::vector<std::string> symbolize_probes(std::span<InstalledProbe> probes);

} // namespace uprobectl
