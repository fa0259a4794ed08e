// SPDX-License-Identifier: Apache-2.0
#include "bpf/link.hpp"

#include "bpf/load_error.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <cerrno>
#include <climits>
#include <fmt/format.h>
#include <linux/bpf.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace uprobectl::bpf {

namespace {

// The link_create member of union bpf_attr. Cleared by memset, because the kernel requires unknown
// bytes to be zero.
struct LinkCreate {
  std::uint32_t program;
  std::uint32_t target;
  std::uint32_t attach_type;
  std::uint32_t flags;
  union {
    struct {
      std::uint64_t cookie;
    } perf_event;
    struct {
      std::uint64_t path;
      std::uint64_t offsets;
      std::uint64_t ref_ctr_offsets;
      std::uint64_t cookies;
      std::uint32_t count;
      std::uint32_t flags;
      std::int32_t pid;
      std::uint32_t reserved;
    } uprobe_multi;
  };
};
static_assert(sizeof(LinkCreate) == 64);

std::expected<UniqueFd, int> create_link(LinkCreate& attributes) {
  const long fd = ::syscall(SYS_bpf, BPF_LINK_CREATE, &attributes, sizeof(attributes));
  if (fd < 0) return std::unexpected(errno);
  return UniqueFd{static_cast<int>(fd)};
}

template <typename T>
std::uint64_t address_of(const T* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

constexpr std::uint32_t link_type_uprobe_multi = 12;
constexpr std::uint32_t max_offsets = 1U << 20; // the kernel's limit for one link

// The part of struct bpf_link_info for uprobe_multi links.
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

// The counterpart of MultiLinkInfo for links on perf events.
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

// False if the link has another type.
template <typename Info>
bool query_link(const UniqueFd& link, Info& info, std::uint32_t type) {
  std::uint32_t size = sizeof(info);
  return ::bpf_obj_get_info_by_fd(link.get(), &info, &size) == 0 && info.type == type;
}

} // namespace

std::string_view to_string(ProgramKind kind) {
  switch (kind) {
  case ProgramKind::plain:
    return "perf events";
  case ProgramKind::multi:
    return "uprobe_multi links";
  case ProgramKind::session:
    return "uprobe session links";
  }
  return "";
}

std::uint32_t expected_attach_type(ProgramKind kind) {
  switch (kind) {
  case ProgramKind::plain:
    return 0;
  case ProgramKind::multi:
    return attach_type_uprobe_multi;
  case ProgramKind::session:
    return attach_type_uprobe_session;
  }
  return 0;
}

std::expected<UniqueFd, int> create_uprobe_multi_link(int program,
                                                      const UprobeMultiTarget& target) {
  LinkCreate attributes;
  std::memset(&attributes, 0, sizeof(attributes));
  attributes.program = static_cast<std::uint32_t>(program);
  attributes.attach_type = target.attach_type;
  attributes.uprobe_multi = {.path = address_of(target.path),
                             .offsets = address_of(target.offsets),
                             .ref_ctr_offsets = address_of(target.semaphores),
                             .cookies = address_of(target.cookies),
                             .count = target.count,
                             .flags = target.on_return ? uprobe_multi_flag_return : 0,
                             .pid = target.pid,
                             .reserved = 0};
  return create_link(attributes);
}

std::expected<UniqueFd, int> create_perf_event_link(int program, int perf_event,
                                                    std::uint64_t cookie) {
  LinkCreate attributes;
  std::memset(&attributes, 0, sizeof(attributes));
  attributes.program = static_cast<std::uint32_t>(program);
  attributes.target = static_cast<std::uint32_t>(perf_event);
  attributes.attach_type = attach_type_perf_event;
  attributes.perf_event.cookie = cookie;
  return create_link(attributes);
}

Result<UniqueFd> attach_to_tracepoint(const bpf_program* program, const char* tracepoint,
                                      std::string_view purpose) {
  const int link = bpf_raw_tracepoint_open(tracepoint, bpf_program__fd(program));
  if (link < 0)
    return fail(bpf_load_error(
        -link, fmt::format("cannot attach to the tracepoint {}, {}", tracepoint, purpose)));
  return UniqueFd(link);
}

int impossible_multi_link_error(int program, std::uint32_t attach_type, std::int32_t pid) {
  const std::uint64_t offset = 0;
  const auto link = create_uprobe_multi_link(program, {.path = "/",
                                                       .offsets = &offset,
                                                       .cookies = nullptr,
                                                       .semaphores = nullptr,
                                                       .count = 1,
                                                       .on_return = false,
                                                       .pid = pid,
                                                       .attach_type = attach_type});
  return link ? 0 : link.error();
}

Result<std::vector<std::uint32_t>> list_link_ids() {
  std::vector<std::uint32_t> links;
  std::uint32_t id = 0;
  while (::bpf_link_get_next_id(id, &id) == 0) links.push_back(id);
  if (errno == ENOENT) return links;
  return fail(system_error(errno, "cannot list BPF links").hint("needs CAP_SYS_ADMIN, or root"));
}

std::optional<AttachedUprobes> read_multi_link_probes(std::uint32_t link) {
  const UniqueFd fd{::bpf_link_get_fd_by_id(link)};
  MultiLinkInfo info{};
  if (!fd || !query_link(fd, info, link_type_uprobe_multi) || info.count > max_offsets)
    return std::nullopt;
  // The first call returned the number of offsets, the second one returns them.
  std::vector<std::uint64_t> offsets(info.count);
  std::string path(PATH_MAX, '\0');
  const std::uint32_t count = info.count;
  info = {};
  info.path = reinterpret_cast<std::uintptr_t>(path.data());
  info.path_size = static_cast<std::uint32_t>(path.size());
  info.offsets = reinterpret_cast<std::uintptr_t>(offsets.data());
  info.count = count;
  if (!query_link(fd, info, link_type_uprobe_multi)) return std::nullopt;
  path.resize(path.find('\0'));
  AttachedUprobes held{.path = std::move(path),
                       .offsets = {},
                       .on_return = (info.flags & uprobe_multi_flag_return) != 0,
                       .program = info.program,
                       .filter = static_cast<pid_t>(info.pid)};
  for (const std::uint64_t offset : offsets) held.offsets.push_back({offset});
  return held;
}

std::optional<AttachedUprobes> read_perf_link_probe(std::uint32_t link) {
  const UniqueFd fd{::bpf_link_get_fd_by_id(link)};
  std::string path(PATH_MAX, '\0');
  PerfLinkInfo info{};
  info.path = reinterpret_cast<std::uintptr_t>(path.data());
  info.path_size = static_cast<std::uint32_t>(path.size());
  if (!fd || !query_link(fd, info, BPF_LINK_TYPE_PERF_EVENT)) return std::nullopt;
  if (info.perf_type != perf_type_uprobe && info.perf_type != perf_type_uretprobe)
    return std::nullopt;
  path.resize(path.find('\0'));
  return AttachedUprobes{.path = std::move(path),
                         .offsets = {{info.offset}},
                         .on_return = info.perf_type == perf_type_uretprobe,
                         .program = info.program,
                         .filter = 0};
}

std::optional<AttachedUprobes> read_perf_event_probe(pid_t process, int fd) {
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
  return AttachedUprobes{.path = std::move(path),
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

} // namespace uprobectl::bpf
