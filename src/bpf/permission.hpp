// What a person can do when the kernel does not let them use BPF.
#pragma once

#include "uprobectl/util.hpp"

namespace uprobectl {

// Whether the errno is about memory or descriptors, and so says nothing about the kernel.
bool is_shortage(int errnum);

// errnum of a refused BPF_PROG_LOAD or BPF_MAP_CREATE as an Error with the way out.
Error bpf_load_error(int errnum, std::string_view what);

// The same with the reason: the end of the verifier's log, or what libbpf said first. A lack of
// memory or descriptors is told alone: what the log says then follows from it.
Error bpf_load_error(int errnum, std::string_view what, std::string_view verifier_log,
                     const std::string& libbpf_said);

// With a hint that a seccomp filter is in force, if one is: those of containers refuse bpf() and
// perf_event_open() with EPERM to root, too.
Error with_filter_hint(Error error);

// How many values a per-CPU map has for each key. Fails if sysfs does not tell.
Result<std::size_t> possible_cpus();
Error unknown_processors(); // what it fails with

} // namespace uprobectl
