#include "bpf/link_create.hpp"

#include <cerrno>
#include <linux/bpf.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace uprobectl {

namespace {

// The link_create member of union bpf_attr. Cleared by memset: the kernel wants every byte that it
// does not know to be zero.
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

std::expected<UniqueFd, int> create(LinkCreate& attributes) {
  const long fd = ::syscall(SYS_bpf, BPF_LINK_CREATE, &attributes, sizeof(attributes));
  if (fd < 0) return std::unexpected(errno);
  return UniqueFd{static_cast<int>(fd)};
}

template <typename T>
std::uint64_t address_of(const T* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer);
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
  return create(attributes);
}

std::expected<UniqueFd, int> create_perf_event_link(int program, int perf_event,
                                                    std::uint64_t cookie) {
  LinkCreate attributes;
  std::memset(&attributes, 0, sizeof(attributes));
  attributes.program = static_cast<std::uint32_t>(program);
  attributes.target = static_cast<std::uint32_t>(perf_event);
  attributes.attach_type = attach_type_perf_event;
  attributes.perf_event.cookie = cookie;
  return create(attributes);
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

} // namespace uprobectl
