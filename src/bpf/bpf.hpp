// BPF: what this kernel can do. Everything libbpf knows stays behind this header and those of bpf/.
#pragma once

#include "uprobectl/util.hpp"

namespace uprobectl {

// Found out by trying, never from the version: vendors backport. Each with the commit it stands for
// in src/bpf/features.cpp.
struct KernelFeatures {
  bool uprobe_multi = false;          // BPF_TRACE_UPROBE_MULTI links
  bool multi_pid_filter = false;      // ... whose pid means the process, not one thread
  bool uprobe_session = false;        // BPF_TRACE_UPROBE_SESSION links
  bool perf_uprobe = false;           // the "uprobe" perf event source
  bool perf_permitted = false;        // ... and this user may open its events
  bool perf_link = false;             // BPF links on perf events, with a cookie
  bool attach_cookie = false;         // bpf_get_attach_cookie, which hands it to the program
  bool tracefs_uprobe = false;        // uprobe_events in a tracefs that is mounted
  bool tracefs_permitted = false;     // ... and this user may write to it
  bool semaphores = false;            // perf and tracefs count up semaphores of static probes
  bool ring_buffer = false;           // BPF_MAP_TYPE_RINGBUF
  bool perf_buffer = false;           // BPF_MAP_TYPE_PERF_EVENT_ARRAY and bpf_perf_event_output
  bool perf_buffer_permitted = false; // ... and this user may open the perf events of such a buffer
};
// not_permitted where this user may not even ask.
Result<KernelFeatures> probe_kernel_features();

// KernelFeatures::perf_link alone. Where it cannot be found out the answer is that there are such
// links: what must not be done on kernels that have them is then not done.
bool kernel_has_perf_links();

// The way a program will be attached. It must be known before the program is loaded: the kernel
// freezes it into the program, and Linux 6.12 and 6.18 oops when a program loaded for a multi link
// is run from a perf event.
enum class ProgramKind {
  plain,   // perf events, tracefs
  multi,   // uprobe_multi links
  session, // uprobe_multi links that call it at entry and at return
};
std::string_view to_string(ProgramKind kind); // "uprobe_multi links"

// A program in the kernel, borrowed.
struct LoadedProgram {
  int fd = -1;
  ProgramKind kind = ProgramKind::plain;
  // By this process, so that its kind is known beyond doubt. The kind of a pinned program is what
  // the kernel's answers tell of it.
  bool loaded_by_us = true;
};

// What carries records from a program to its reader.
enum class RecordBuffer {
  ring, // one for all CPUs, in order (Linux 5.8)
  perf, // a perf event array: one for each CPU, put in order by the reader (Linux 4.4)
};
std::string_view to_string(RecordBuffer buffer); // "ring", "perf"
// The one asked for, or the better one that this kernel has; unsupported with the reason.
Result<RecordBuffer> choose_buffer(std::optional<RecordBuffer> wanted,
                                   const KernelFeatures& features);

} // namespace uprobectl
