// SPDX-License-Identifier: Apache-2.0
// BPF features of the running kernel, and the kinds of programs and buffers that depend on them.
#pragma once

#include "uprobectl/insn.hpp"

namespace uprobectl::bpf {

// Determined by trying, never from the version, because vendors backport. src/bpf/features.cpp
// names the kernel commit of each.
struct KernelFeatures {
  bool uprobe_multi = false;          // BPF_TRACE_UPROBE_MULTI links
  bool multi_pid_filter = false;      // ... whose pid selects the process, not one thread
  bool uprobe_session = false;        // BPF_TRACE_UPROBE_SESSION links
  bool sysfs = true;                  // /sys is mounted, without which some of these are unknown
  bool perf_uprobe = false;           // the "uprobe" perf event source
  bool perf_permitted = false;        // ... and this user may open its events
  bool perf_link = false;             // BPF links on perf events, with a cookie
  bool attach_cookie = false;         // bpf_get_attach_cookie
  bool tracefs_uprobe = false;        // uprobe_events in a mounted tracefs
  bool tracefs_permitted = false;     // ... and this user may write to it
  bool semaphores = false;            // perf and tracefs count up semaphores of static probes
  bool ring_buffer = false;           // BPF_MAP_TYPE_RINGBUF
  bool perf_buffer = false;           // BPF_MAP_TYPE_PERF_EVENT_ARRAY and bpf_perf_event_output
  bool perf_buffer_permitted = false; // ... and this user may open the perf events of such a buffer
  // Sleepable programs run at probes; nullopt: not tested. See probe/sleepable.hpp.
  std::optional<bool> sleepable = {};
};
// not_permitted if this user may not load any BPF program.
Result<KernelFeatures> probe_kernel_features();

// Returns which nops this kernel replaces while they are probed. Needs no permission. Returns all
// of them if the kernel does not tell.
insn::OptimizedNops probe_optimized_nops();

// Whether the kernel itself adds the caller to the stack when it walks frame pointers at a uprobe
// on this code: there no frame has been set up yet.
bool walk_finds_caller(Bytes code);

// KernelFeatures::perf_link alone. True if it cannot be determined, so that operations that are
// unsafe on kernels with such links are avoided.
bool kernel_has_perf_links();

// How a program will be attached. This must be known when it is loaded: the kernel stores it in the
// program, and Linux 6.12 and 6.18 oops if a program loaded for a multi link is run by a perf
// event.
enum class ProgramKind {
  plain,   // perf events, tracefs
  multi,   // uprobe_multi links
  session, // uprobe_multi links that run it at entry and at return
};
std::string_view to_string(ProgramKind kind); // "uprobe_multi links"

// A program in the kernel, borrowed.
struct LoadedProgram {
  int fd = -1;
  ProgramKind kind = ProgramKind::plain;
  // False for a pinned program, whose kind is derived from the kernel's errors.
  bool loaded_by_us = true;
};

// The buffer that carries records from a program to its reader.
enum class RecordBuffer {
  ring, // one for all CPUs, in order (Linux 5.8)
  perf, // a perf event array: one for each CPU, sorted by the reader (Linux 4.4)
};
std::string_view to_string(RecordBuffer buffer); // "ring", "perf"
// Returns the requested buffer; if none is requested, a ring buffer if the kernel supports it.
// unsupported and not_permitted name what is missing.
Result<RecordBuffer> choose_buffer(std::optional<RecordBuffer> requested,
                                   const KernelFeatures& features);

// The perf event source "uprobe" as described by sysfs. Its numbers differ between kernels:
// Documentation/ABI/testing/sysfs-bus-event_source-devices-format.
struct UprobeEventSource {
  std::uint32_t type = 0;        // perf_event_attr.type
  std::uint64_t return_flag = 0; // the bit of perf_event_attr.config for return probes
  // The lowest bit of the semaphore's offset in perf_event_attr.config, which uses all higher bits;
  // nullopt without semaphores (before Linux commit a6ca88b241d5, "trace_uprobe: support reference
  // counter in fd-based uprobe", in v4.20).
  std::optional<std::uint32_t> semaphore_shift = {};
};
Result<UprobeEventSource> read_uprobe_event_source();

} // namespace uprobectl::bpf
