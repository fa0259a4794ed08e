// SPDX-License-Identifier: Apache-2.0
// BPF links of uprobes: creating them, and what the kernel reports about existing ones. Debian's
// headers and libbpf 1.1.2 predate the uprobe_multi part of union bpf_attr, which is stable kernel
// ABI (include/uapi/linux/bpf.h, Linux commit 89ae89f53d20 "bpf: Add multi uprobe link"), and these
// parts of struct bpf_link_info: uprobe_multi came with Linux commit e56fdbfb06e2 in v6.8, the
// uprobe of a perf event with 1b715e1b0ec5 in v6.6.
#pragma once

#include "bpf/bpf.hpp"
#include "uprobectl/util.hpp"

#include <string_view>
#include <sys/types.h>

struct bpf_program; // libbpf

namespace uprobectl::bpf {

inline constexpr std::uint32_t attach_type_perf_event = 41;
inline constexpr std::uint32_t attach_type_uprobe_multi = 48;
inline constexpr std::uint32_t attach_type_uprobe_session = 57;
inline constexpr std::uint32_t uprobe_multi_flag_return = 1;

// The bpf_attr.expected_attach_type of programs of this kind, and of links to them.
std::uint32_t expected_attach_type(ProgramKind kind);

// The probes of one uprobe_multi link.
struct UprobeMultiTarget {
  const char* path = nullptr;
  const std::uint64_t* offsets = nullptr;
  const std::uint64_t* cookies = nullptr; // as many as offsets, or null
  const std::uint64_t* semaphores =
      nullptr; // as many as offsets, or null: their file offsets, 0: none
  std::uint32_t count = 0;
  bool on_return = false;
  std::int32_t pid = 0;                                 // 0: every process
  std::uint32_t attach_type = attach_type_uprobe_multi; // what the program was loaded for
};

// Returns the link's descriptor, or errno: the meaning of EINVAL depends on the caller.
std::expected<UniqueFd, int> create_uprobe_multi_link(int program, const UprobeMultiTarget& target);
std::expected<UniqueFd, int> create_perf_event_link(int program, int perf_event,
                                                    std::uint64_t cookie);

// Returns the link of a loaded program to a raw tracepoint of the kernel. `purpose` follows its
// name in the error.
Result<UniqueFd> attach_to_tracepoint(const bpf_program* program, const char* tracepoint,
                                      std::string_view purpose);

// The errno for a multi link in "/", which always fails because that is not a regular file. It
// shows what the kernel supports and what the program was loaded for.
int impossible_multi_link_error(int program, std::uint32_t attach_type, std::int32_t pid);

// The uprobes of one link or perf event.
struct AttachedUprobes {
  std::string path; // as given by the owner, for example "/proc/self/fd/N"
  std::vector<FileOffset> offsets;
  bool on_return = false;
  std::uint32_t program = 0; // its id
  pid_t filter = 0;          // 0: every process
};

// The ids of all links, ascending. not_permitted without CAP_SYS_ADMIN.
Result<std::vector<std::uint32_t>> list_link_ids();

// Returns nullopt if the link does not exist or is not a uprobe_multi link. The offsets are empty
// if the kernel does not report them.
std::optional<AttachedUprobes> read_multi_link_probes(std::uint32_t link);

// Reads the link between a program and a uprobe perf event, as read_multi_link_probes() does; since
// Linux 6.6.
std::optional<AttachedUprobes> read_perf_link_probe(std::uint32_t link);

// Returns the uprobe of a BPF program on the perf event that descriptor fd of a process refers to.
// bpf(2), BPF_TASK_FD_QUERY: Linux 4.18.
std::optional<AttachedUprobes> read_perf_event_probe(pid_t process, int fd);

// Returns the name of a program by its id, as the kernel truncates it; nullopt if it cannot be
// opened.
std::optional<std::string> program_name(std::uint32_t program);

} // namespace uprobectl::bpf
