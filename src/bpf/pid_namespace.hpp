// SPDX-License-Identifier: Apache-2.0
// The pid namespace of this process: the kernel reports ids of the initial one to BPF programs, but
// -p, /proc and this program's output use those of its own.
#pragma once

#include "bpf/id_namespace.h"
#include "uprobectl/util.hpp"

#include <optional>
#include <string>

namespace uprobectl::bpf {

// Identifies a pid namespace.
struct PidNamespace {
  std::uint32_t device = 0; // of nsfs, as the kernel's dev_t
  std::uint32_t inode = 0;
};
// Returns the namespace of the process with this folder in /proc. Returns nullopt for the initial
// one, also if the kernel has no pid namespaces, as Android's (CONFIG_PID_NS).
std::optional<PidNamespace> read_pid_namespace(const std::string& process = "/proc/self");

// Returns what programs need to report ids of this process's namespace. Fails with unsupported if
// it is not the initial one, and this kernel lets programs translate ids in neither of two ways: by
// a helper (Linux 5.7), or by the layout of its structures, which BTF describes. Call it after
// prepare_limits(). Errors: also those of loading a program.
Result<id_namespace> find_id_namespace();

} // namespace uprobectl::bpf
