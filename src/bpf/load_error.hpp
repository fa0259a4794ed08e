// SPDX-License-Identifier: Apache-2.0
// Why the kernel or libbpf refuses BPF, and what the user can do about it.
#pragma once

#include "uprobectl/util.hpp"

#include <string>
#include <string_view>

namespace uprobectl {

// Whether the errno is a lack of memory or descriptors, which says nothing about the kernel's
// features.
bool is_shortage(int errnum);

// The Error for a failed BPF_PROG_LOAD or BPF_MAP_CREATE, with hints.
Error bpf_load_error(int errnum, std::string_view what);

// The same with the reason: the end of the verifier's log, or libbpf's first message. Without them
// for a lack of memory or descriptors, from which the messages would follow.
Error bpf_load_error(int errnum, std::string_view what, std::string_view verifier_log,
                     const std::string& libbpf_said);

// Adds a hint if a seccomp filter is in force: those of containers reject bpf() and
// perf_event_open() with EPERM, even for root.
Error with_filter_hint(Error error);

// The number of values of a per-CPU map for each key. Fails without sysfs.
Result<std::size_t> possible_cpus();
Error unknown_cpu_count(); // its error

// Collects libbpf's warnings of this thread during its lifetime, instead of printing them.
class LibbpfLog {
public:
  LibbpfLog();
  LibbpfLog(const LibbpfLog&) = delete;
  LibbpfLog& operator=(const LibbpfLog&) = delete;
  ~LibbpfLog();

  // The first warning, without libbpf's prefix and the line end: later ones are consequences.
  std::string cause() const;

private:
  std::string text_;
};

// The last lines of a log, without the line end. The verifier ends its log with the error.
std::string last_lines(std::string_view log, int count);

// Raises the soft limit of descriptors to the hard limit: perf events take two descriptors per
// probe and copies of a program two more, so the usual 1024 suffice for a few hundred probes only.
void raise_descriptor_limit();

// Fails unless enough descriptors are free to load the built-in program. libbpf and the feature
// tests would take a lack of them for missing kernel features.
Result<void> check_free_descriptors();

} // namespace uprobectl
