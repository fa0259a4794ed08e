// What the kernel tells about BPF links and perf events that hold uprobes. Debian's headers predate
// these parts of struct bpf_link_info (include/uapi/linux/bpf.h): uprobe_multi came with Linux
// commit e56fdbfb06e2 in v6.8, the uprobe of a perf event with 1b715e1b0ec5 in v6.6.
#pragma once

#include "uprobectl/util.hpp"

#include <sys/types.h>

namespace uprobectl {

// Uprobes of one file that one link or event holds.
struct HeldProbes {
  std::string path; // as the kernel has it: "/proc/self/fd/N" where the file was given so
  std::vector<FileOffset> offsets;
  bool on_return = false;
  std::uint32_t program = 0; // its id
  pid_t filter = 0;          // 0: every process
};

// Every link's id, ascending. not_permitted without CAP_SYS_ADMIN.
Result<std::vector<std::uint32_t>> all_links();

// Nothing where the link is gone or no uprobe_multi link; without offsets where the kernel does not
// tell them.
std::optional<HeldProbes> probes_of_multi_link(std::uint32_t link);

// The same of the link between a program and a uprobe perf event: from Linux 6.6 on.
std::optional<HeldProbes> probe_of_perf_link(std::uint32_t link);

// The uprobe behind descriptor fd of a process, with a BPF program on it; nothing where there is
// none. bpf(2), BPF_TASK_FD_QUERY: Linux 4.18.
std::optional<HeldProbes> probe_of_perf_event(pid_t process, int fd);

std::optional<std::string> program_name(std::uint32_t program);

} // namespace uprobectl
