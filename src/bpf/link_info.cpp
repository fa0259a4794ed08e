#include "bpf/link_info.hpp"

#include <bpf/bpf.h>
#include <cerrno>
#include <climits>
#include <linux/bpf.h>

namespace uprobectl {

namespace {

constexpr std::uint32_t link_type_uprobe_multi = 12;
constexpr std::uint32_t multi_flag_return = 1;
constexpr std::uint32_t most_offsets = 1U << 20; // the kernel's own limit for one link

// struct bpf_link_info as far as it is about uprobe_multi links.
struct MultiLinkInfo {
  std::uint32_t type;
  std::uint32_t id;
  std::uint32_t program;
  std::uint32_t reserved;
  std::uint64_t path;
  std::uint64_t offsets;
  std::uint64_t ref_ctr_offsets;
  std::uint64_t cookies;
  std::uint32_t path_size;
  std::uint32_t count;
  std::uint32_t flags;
  std::uint32_t pid;
};
static_assert(sizeof(MultiLinkInfo) == 64);

// The same as far as it is about links on perf events.
struct PerfLinkInfo {
  std::uint32_t type;
  std::uint32_t id;
  std::uint32_t program;
  std::uint32_t reserved;
  std::uint32_t perf_type;
  std::uint32_t padding;
  std::uint64_t path;
  std::uint32_t path_size;
  std::uint32_t offset;
  std::uint64_t cookie;
};
static_assert(sizeof(PerfLinkInfo) == 48);
constexpr std::uint32_t perf_type_uprobe = 1;    // BPF_PERF_EVENT_UPROBE
constexpr std::uint32_t perf_type_uretprobe = 2; // BPF_PERF_EVENT_URETPROBE

template <typename Info>
bool ask(const UniqueFd& link, Info& info, std::uint32_t type) {
  std::uint32_t size = sizeof(info);
  return ::bpf_obj_get_info_by_fd(link.get(), &info, &size) == 0 && info.type == type;
}

} // namespace

Result<std::vector<std::uint32_t>> all_links() {
  std::vector<std::uint32_t> links;
  std::uint32_t id = 0;
  while (::bpf_link_get_next_id(id, &id) == 0) links.push_back(id);
  if (errno == ENOENT) return links;
  return fail(system_error(errno, "cannot ask for BPF links").hint("needs CAP_SYS_ADMIN, or root"));
}

std::optional<HeldProbes> probes_of_multi_link(std::uint32_t link) {
  const UniqueFd fd{::bpf_link_get_fd_by_id(link)};
  MultiLinkInfo info{};
  if (!fd || !ask(fd, info, link_type_uprobe_multi) || info.count > most_offsets)
    return std::nullopt;
  // Asked without room for them it tells how many there are; asked with it, which.
  std::vector<std::uint64_t> offsets(info.count);
  std::string path(PATH_MAX, '\0');
  const std::uint32_t count = info.count;
  info = {};
  info.path = reinterpret_cast<std::uintptr_t>(path.data());
  info.path_size = static_cast<std::uint32_t>(path.size());
  info.offsets = reinterpret_cast<std::uintptr_t>(offsets.data());
  info.count = count;
  if (!ask(fd, info, link_type_uprobe_multi)) return std::nullopt;
  path.resize(path.find('\0'));
  HeldProbes held{.path = std::move(path),
                  .offsets = {},
                  .on_return = (info.flags & multi_flag_return) != 0,
                  .program = info.program,
                  .filter = static_cast<pid_t>(info.pid)};
  for (const std::uint64_t offset : offsets) held.offsets.push_back({offset});
  return held;
}

std::optional<HeldProbes> probe_of_perf_link(std::uint32_t link) {
  const UniqueFd fd{::bpf_link_get_fd_by_id(link)};
  std::string path(PATH_MAX, '\0');
  PerfLinkInfo info{};
  info.path = reinterpret_cast<std::uintptr_t>(path.data());
  info.path_size = static_cast<std::uint32_t>(path.size());
  if (!fd || !ask(fd, info, BPF_LINK_TYPE_PERF_EVENT)) return std::nullopt;
  if (info.perf_type != perf_type_uprobe && info.perf_type != perf_type_uretprobe)
    return std::nullopt;
  path.resize(path.find('\0'));
  return HeldProbes{.path = std::move(path),
                    .offsets = {{info.offset}},
                    .on_return = info.perf_type == perf_type_uretprobe,
                    .program = info.program,
                    .filter = 0};
}

std::optional<HeldProbes> probe_of_perf_event(pid_t process, int fd) {
  std::string path(PATH_MAX, '\0');
  auto size = static_cast<std::uint32_t>(path.size());
  std::uint32_t program = 0;
  std::uint32_t type = 0;
  __u64 offset = 0;
  __u64 address = 0;
  if (::bpf_task_fd_query(process, fd, 0, path.data(), &size, &program, &type, &offset, &address) !=
      0)
    return std::nullopt;
  if (type != BPF_FD_TYPE_UPROBE && type != BPF_FD_TYPE_URETPROBE) return std::nullopt;
  path.resize(path.find('\0'));
  return HeldProbes{.path = std::move(path),
                    .offsets = {{offset}},
                    .on_return = type == BPF_FD_TYPE_URETPROBE,
                    .program = program,
                    .filter = 0};
}

std::optional<std::string> program_name(std::uint32_t program) {
  const UniqueFd fd{::bpf_prog_get_fd_by_id(program)};
  bpf_prog_info info{};
  std::uint32_t size = sizeof(info);
  if (!fd || ::bpf_obj_get_info_by_fd(fd.get(), &info, &size) != 0) return std::nullopt;
  return std::string(info.name);
}

} // namespace uprobectl
