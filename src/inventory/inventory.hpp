// SPDX-License-Identifier: Apache-2.0
// Lists the uprobes of all programs on this machine: BPF links and perf events, as reported by the
// kernel, and the events of tracefs. Changes nothing.
#pragma once

#include "uprobectl/util.hpp"

#include <span>
#include <sys/types.h>

namespace uprobectl::inventory {

// A process with a descriptor that keeps a probe attached.
struct ProbeHolder {
  pid_t pid = 0;
  std::string comm; // empty if the process has just ended
  auto operator<=>(const ProbeHolder&) const = default;
};

// An attached uprobe.
struct InstalledProbe {
  std::string mechanism; // "multi", "perf", "tracefs"
  std::string file;      // path as the kernel reports it
  std::optional<std::string> entry;
  FileOffset offset;
  bool on_return = false;
  std::optional<std::string> symbol;  // "f+0x4", demangled; nullopt if the file has none
  std::optional<pid_t> filter;        // the probed process; nullopt if all, or unknown
  std::vector<ProbeHolder> holders;   // by pid
  std::optional<std::string> program; // the BPF program's name
  std::optional<std::string> event;   // tracefs: "group/name"
  // No process holds it: a pinned link, or a disabled event without a BPF program.
  bool leftover = false;
};

// An event of tracefs' uprobe_events.
struct TracefsEvent {
  std::string name; // "group/name"
  bool on_return = false;
  std::string path;
  FileOffset offset;
};

// Parses the text of uprobe_events, lines of "p:group/name PATH:0xOFFSET(0xREF) ARGS…" (Linux
// Documentation/trace/uprobetracer.rst), and counts the lines that it does not understand.
struct ListedEvents {
  std::vector<TracefsEvent> events;
  std::size_t unknown_lines = 0;
};
ListedEvents parse_uprobe_events(std::string_view text);

// All uprobes of the machine.
struct Inventory {
  std::vector<InstalledProbe> probes; // by file and offset
  std::vector<std::string> warnings;  // what could not be read or named
  bool is_complete = true;            // false if there may be other probes
};
// Errors: not_permitted without CAP_SYS_ADMIN.
Result<Inventory> read_inventory();

// Sets entry and symbol of the probes whose files can be read, each file once. For a file of
// another mount namespace, sets the path by which it can be opened from here. Returns warnings
// about paths that are different files in several mount namespaces; their probes get no symbol.
std::vector<std::string> symbolize_probes(std::span<InstalledProbe> probes);

} // namespace uprobectl::inventory
