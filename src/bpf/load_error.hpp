// SPDX-License-Identifier: Apache-2.0
// Errors of the kernel and libbpf while loading BPF, with hints for the user.
#pragma once

#include "uprobectl/util.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace uprobectl::bpf {

// Whether the errno is a lack of memory or descriptors, which says nothing about the kernel's
// features.
bool is_shortage(int errnum);

// Returns the error for a failed BPF_PROG_LOAD or BPF_MAP_CREATE, with hints.
Error bpf_load_error(int errnum, std::string_view what);

// Also adds find_rejection() of the verifier's log, or libbpf's first message, as a hint, unless
// memory or descriptors are missing: then the messages are only consequences.
Error bpf_load_error(int errnum, std::string_view what, std::string_view verifier_log,
                     const std::string& libbpf_message);

// Adds hints to the error for EPERM or EACCES: if SELinux is enforcing, and if a seccomp filter is
// in force. Both can refuse bpf() and perf_event_open() even to root. Lockdown can as well; then
// its hint replaces those about capabilities.
Error with_refusal_hints(Error error);

// Replaces the hints if this user has all capabilities and the kernel is locked down for
// confidentiality, where tracefs has no files and perf events may be refused.
Error with_lockdown_hint(Error error);

// The number of possible CPUs, which is the number of values per key of a per-CPU map. Fails with
// unknown_cpu_count() without sysfs.
Result<std::size_t> possible_cpus();
Error unknown_cpu_count();

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

// Returns the lines of the verifier's log that say why it rejects a program: the last instruction
// and what is wrong with it. Returns an empty text for an empty log. Newer kernels explain the
// error after these lines, in paragraphs: only the reason is taken from them.
std::string find_rejection(std::string_view log);

// Raises the limit of locked memory as far as this user may.
void raise_memory_limit();

// The bytes that all BPF programs and maps of this user may take, after raising the limit. nullopt
// if there is no limit, or if this user may not load programs. Linux before 5.11 counts them as
// locked memory; since then control groups limit them (commit 3ac1f01b43b6 and those before it).
std::optional<std::uint64_t> bpf_memory_limit();

// Whether a failed BPF_PROG_LOAD or BPF_MAP_CREATE exceeded that limit. The errno is that of a
// missing permission.
bool exceeds_bpf_memory_limit(int errnum);

// Raises the soft limit of descriptors to the hard limit: perf events take two descriptors per
// probe and copies of a program two more, so the usual 1024 suffice for a few hundred probes only.
void raise_descriptor_limit();

// Raises the limits of descriptors and locked memory. Fails unless enough descriptors are free to
// load the built-in program: libbpf and the feature tests mistake a lack of descriptors for missing
// kernel features.
Result<void> prepare_limits();

} // namespace uprobectl::bpf
