#include "bpf/bpf.hpp"
#include "bpf/descriptor_limit.hpp"
#include "bpf/event_source.hpp"
#include "bpf/link_create.hpp"
#include "bpf/perf_sample.hpp"
#include "bpf/permission.hpp"
#include "bpf/tracefs.hpp"

#include <bpf/bpf.h>
#include <cerrno>
#include <fcntl.h>
#include <fstream>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace uprobectl {

namespace {

std::expected<UniqueFd, int> load(std::span<const bpf_insn> code,
                                  std::uint32_t expected_attach_type) {
  LIBBPF_OPTS(bpf_prog_load_opts, options,
              .expected_attach_type = static_cast<bpf_attach_type>(expected_attach_type));
  const int fd = bpf_prog_load(BPF_PROG_TYPE_KPROBE, "uprobectl_probe", "GPL", code.data(),
                               code.size(), &options);
  if (fd < 0) return std::unexpected(-fd);
  return UniqueFd{fd};
}

// "return 0", loadable by every kernel that has BPF kprobe programs.
std::expected<UniqueFd, int> load_trivial(std::uint32_t expected_attach_type) {
  const bpf_insn code[] = {
      {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .src_reg = 0, .off = 0, .imm = 0},
      {.code = BPF_JMP | BPF_EXIT, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = 0},
  };
  return load(code, expected_attach_type);
}

// Linux commit 89ae89f53d20 ("bpf: Add multi uprobe link") in v6.6. A kernel that knows the link
// looks at the path and refuses "/", which is no regular file, with EBADF.
bool has_uprobe_multi(int program, std::int32_t pid, int expected_error,
                      std::uint32_t attach_type = attach_type_uprobe_multi) {
  return impossible_multi_link_error(program, attach_type, pid) == expected_error;
}

// Linux commit b89fbfbb854c ("bpf: Implement minimal BPF perf link") in v5.15: the target
// descriptor -1 is looked up, and only then refused.
bool has_perf_link(int program) {
  const auto link = create_perf_event_link(program, -1, 0);
  return !link && link.error() == EBADF;
}

// Whether this user may open a uprobe perf event: asked for one in "/", which is no regular file,
// so that nothing is placed. The permission is looked at first (Linux commit ba677dbe77af, "perf:
// Revert to requiring CAP_SYS_ADMIN for uprobes", July 2025).
bool may_open_perf_uprobe(const UprobeEventSource& source) {
  perf_event_attr attributes{};
  attributes.size = sizeof(attributes);
  attributes.type = source.type;
  attributes.config1 = reinterpret_cast<std::uintptr_t>("/");
  const UniqueFd event{static_cast<int>(
      ::syscall(SYS_perf_event_open, &attributes, -1, 0, -1, PERF_FLAG_FD_CLOEXEC))};
  return event || (errno != EACCES && errno != EPERM);
}

// Linux commit 7adfc6c9b315 ("bpf: Add bpf_get_attach_cookie() BPF helper to access bpf_cookie
// value") in v5.15: whether a program that calls it is taken.
bool has_attach_cookie() {
  const bpf_insn code[] = {
      {.code = BPF_JMP | BPF_CALL,
       .dst_reg = 0,
       .src_reg = 0,
       .off = 0,
       .imm = BPF_FUNC_get_attach_cookie},
      {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .src_reg = 0, .off = 0, .imm = 0},
      {.code = BPF_JMP | BPF_EXIT, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = 0},
  };
  return load(code, 0).has_value();
}

// Linux commit 457f44363a88 ("bpf: Implement BPF ring buffer and verifier support for it") in v5.8.
// A lack of memory (of a control group) says nothing about the kernel.
Result<bool> has_ring_buffer() {
  const UniqueFd map{bpf_map_create(BPF_MAP_TYPE_RINGBUF, "uprobectl_probe", 0, 0,
                                    static_cast<std::uint32_t>(::getpagesize()), nullptr)};
  if (!map && is_shortage(errno)) return fail(system_error(errno, "cannot make a BPF map"));
  return static_cast<bool>(map);
}

// Linux commits ea317b267e9d ("bpf: Add new bpf map type to store the pointer to struct
// perf_event") in v4.3 and a43eec304259 ("bpf: introduce bpf_perf_event_output() helper") in v4.4.
bool has_perf_buffer() {
  const UniqueFd map{bpf_map_create(BPF_MAP_TYPE_PERF_EVENT_ARRAY, "uprobectl_probe",
                                    sizeof(std::uint32_t), sizeof(std::uint32_t), 1, nullptr)};
  return static_cast<bool>(map);
}

// Of the kernel as it is released CAP_PERFMON is enough; Debian's and Android's ask for
// CAP_SYS_ADMIN where perf_event_paranoid is above 2.
bool may_open_perf_buffer() {
  perf_event_attr attributes = bpf_output_event();
  const UniqueFd event{static_cast<int>(
      ::syscall(SYS_perf_event_open, &attributes, -1, 0, -1, PERF_FLAG_FD_CLOEXEC))};
  return event || (errno != EACCES && errno != EPERM);
}

// Whether perf_event_open() gets as far as to look for its argument: seccomp filters and security
// modules refuse the call before that. Programs on events of tracefs are attached through it.
bool may_call_perf_event_open() {
  const UniqueFd event{
      static_cast<int>(::syscall(SYS_perf_event_open, nullptr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC))};
  return errno != EACCES && errno != EPERM && errno != ENOSYS;
}

// Linux commit f3f096cfedf8 ("tracing: Provide trace events interface for uprobes") in v3.5.
// Nothing is written; O_TRUNC would take away everybody's events.
void probe_tracefs(KernelFeatures& features) {
  const auto tracefs = find_tracefs();
  features.tracefs_uprobe = tracefs.has_value();
  features.tracefs_permitted =
      tracefs &&
      UniqueFd{::open((*tracefs + "/uprobe_events").c_str(), O_WRONLY | O_APPEND | O_CLOEXEC)} &&
      may_call_perf_event_open();
  if (!tracefs || features.semaphores) return;
  std::ifstream readme(*tracefs + "/README");
  for (std::string line; !features.semaphores && std::getline(readme, line);)
    features.semaphores = line.find("(ref_ctr_offset)") != std::string::npos;
}

} // namespace

Result<KernelFeatures> probe_kernel_features() {
  if (auto enough = check_free_descriptors(); !enough) return fail(std::move(enough).error());
  const auto plain = load_trivial(0);
  if (!plain) return fail(bpf_load_error(plain.error(), "cannot load a BPF program"));

  KernelFeatures features;
  // Loading succeeds on kernels without multi links too; only creating a link tells.
  if (const auto multi = load_trivial(attach_type_uprobe_multi)) {
    features.uprobe_multi = has_uprobe_multi(multi->get(), 0, EBADF);
    // Linux commit 46ba0e49b642 ("bpf: fix multi-uprobe PID filtering logic") in v6.10 refuses
    // negative pids in the same breath as it makes the filter mean the process, not one thread.
    features.multi_pid_filter = features.uprobe_multi && has_uprobe_multi(multi->get(), -1, EINVAL);
  }
  // Linux commit d920179b3d48 ("bpf: Add support for uprobe multi session attach") in v6.13.
  if (const auto session = load_trivial(attach_type_uprobe_session))
    features.uprobe_session =
        has_uprobe_multi(session->get(), 0, EBADF, attach_type_uprobe_session);
  // Linux commit e12f03d7031a ("perf/core: Implement the 'perf_kprobe' PMU") and its uprobe twin
  // 33ea4b24277b, in v4.17.
  const auto source = read_uprobe_event_source();
  features.perf_uprobe = source.has_value();
  features.perf_permitted = source && may_open_perf_uprobe(*source);
  features.perf_link = has_perf_link(plain->get());
  features.attach_cookie = has_attach_cookie();
  // Linux commits 1cc33161a83d ("uprobes: Support SDT markers having reference count (semaphore)")
  // and a6ca88b241d5 ("trace_uprobe: support reference counter in fd-based uprobe"), both in v4.20.
  features.semaphores = source && source->semaphore_shift;
  probe_tracefs(features);
  const auto ring_buffer = has_ring_buffer();
  if (!ring_buffer) return fail(ring_buffer.error());
  features.ring_buffer = *ring_buffer;
  features.perf_buffer = has_perf_buffer();
  features.perf_buffer_permitted = features.perf_buffer && may_open_perf_buffer();
  return features;
}

bool kernel_has_perf_links() {
  const auto plain = load_trivial(0);
  return !plain || has_perf_link(plain->get());
}

std::string_view to_string(RecordBuffer buffer) {
  return buffer == RecordBuffer::ring ? "ring" : "perf";
}

Result<RecordBuffer> choose_buffer(std::optional<RecordBuffer> wanted,
                                   const KernelFeatures& features) {
  if (wanted != RecordBuffer::perf && features.ring_buffer) return RecordBuffer::ring;
  if (wanted == RecordBuffer::ring)
    return fail(Error{ErrorKind::unsupported, "this kernel has no BPF ring buffer"}.hint(
        "it came with Linux 5.8; --buffer perf works from Linux 4.4 on"));
  if (features.perf_buffer_permitted) return RecordBuffer::perf;
  if (features.perf_buffer)
    return fail(Error{ErrorKind::not_permitted, "this user may not open perf buffers"}.hint(
        "needs CAP_PERFMON, and CAP_SYS_ADMIN on kernels that ask for it where "
        "/proc/sys/kernel/perf_event_paranoid is above 2, or root"));
  return fail(ErrorKind::unsupported, "this kernel has neither BPF ring buffers nor perf buffers");
}

} // namespace uprobectl
