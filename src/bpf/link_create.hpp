// BPF_LINK_CREATE as this project needs it: Debian's headers and libbpf 1.1.2 predate the
// uprobe_multi part of union bpf_attr, which is stable kernel ABI (include/uapi/linux/bpf.h, Linux
// commit 89ae89f53d20 "bpf: Add multi uprobe link").
#pragma once

#include "bpf/bpf.hpp"

namespace uprobectl {

inline constexpr std::uint32_t attach_type_perf_event = 41;
inline constexpr std::uint32_t attach_type_uprobe_multi = 48;
inline constexpr std::uint32_t attach_type_uprobe_session = 57;
inline constexpr std::uint32_t uprobe_multi_flag_return = 1;

// What a program of the kind is loaded for (bpf_attr.expected_attach_type), and a link to it made
// with.
std::uint32_t expected_attach_type(ProgramKind kind);

struct UprobeMultiTarget {
  const char* path = nullptr;
  const std::uint64_t* offsets = nullptr;
  const std::uint64_t* cookies = nullptr;    // as many as offsets, or null
  const std::uint64_t* semaphores = nullptr; // the same: offsets, 0 where there is none
  std::uint32_t count = 0;
  bool on_return = false;
  std::int32_t pid = 0;                                 // 0: every process
  std::uint32_t attach_type = attach_type_uprobe_multi; // what the program was loaded for
};

// A link's descriptor, or errno. Neither wraps errors: what EINVAL means depends on who asks.
std::expected<UniqueFd, int> create_uprobe_multi_link(int program, const UprobeMultiTarget& target);
std::expected<UniqueFd, int> create_perf_event_link(int program, int perf_event,
                                                    std::uint64_t cookie);

// What the kernel says to a multi link in "/", which is no regular file, so that none comes about:
// how far it gets before it refuses tells what it knows, and what the program is for. An errno.
int impossible_multi_link_error(int program, std::uint32_t attach_type, std::int32_t pid);

} // namespace uprobectl
