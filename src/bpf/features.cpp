// SPDX-License-Identifier: Apache-2.0
#include "bpf/bpf.hpp"

#include "bpf/kernel_types.hpp"
#include "bpf/link.hpp"
#include "bpf/load_error.hpp"
#include "bpf/record_reader.hpp"
#include "bpf/test_program.hpp"
#include "bpf/tracefs.hpp"
#include "insn/code_forms.hpp"
#include "util/numbers.hpp"

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <fstream>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace uprobectl::bpf {

namespace {

Result<std::string> read_sysfs(const std::string& name) {
  const std::string path = "/sys/bus/event_source/devices/uprobe/" + name;
  const UniqueFd fd{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (!fd) return fail(system_error(errno, path));
  char text[64];
  const ssize_t size = ::read(fd.get(), text, sizeof(text));
  if (size < 0) return fail(system_error(errno, path));
  return std::string(text, static_cast<std::size_t>(size));
}

std::optional<std::uint32_t> leading_number(std::string_view text) {
  return take_number<std::uint32_t>(text);
}

// "return 0", which every kernel with BPF kprobe programs can load.
std::expected<UniqueFd, int> load_trivial(std::uint32_t expected_attach_type) {
  LIBBPF_OPTS(bpf_prog_load_opts, options,
              .expected_attach_type = static_cast<bpf_attach_type>(expected_attach_type));
  return load_test_program(std::array{move_number(BPF_REG_0, 0), exit_program}, &options);
}

// Linux commit 89ae89f53d20 ("bpf: Add multi uprobe link") in v6.6. A kernel that supports the link
// rejects the path "/", which is not a regular file, with EBADF.
bool has_uprobe_multi(int program, std::int32_t pid, int expected_error,
                      std::uint32_t attach_type = attach_type_uprobe_multi) {
  return impossible_multi_link_error(program, attach_type, pid) == expected_error;
}

// Linux commit b89fbfbb854c ("bpf: Implement minimal BPF perf link") in v5.15: the target
// descriptor -1 is looked up, and only then rejected.
bool has_perf_link(int program) {
  const auto link = create_perf_event_link(program, -1, 0);
  return !link && link.error() == EBADF;
}

// Whether this user may open a uprobe perf event. Requests one in "/", which is not a regular file,
// so that no probe is placed; the permission is checked first (Linux commit ba677dbe77af, "perf:
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
// value") in v5.15: whether a program that calls it can be loaded.
bool has_attach_cookie() {
  return load_test_program(std::array{call_helper(BPF_FUNC_get_attach_cookie),
                                      move_number(BPF_REG_0, 0), exit_program})
      .has_value();
}

// Linux commit 457f44363a88 ("bpf: Implement BPF ring buffer and verifier support for it") in v5.8.
// A lack of memory (of a control group) says nothing about the kernel.
Result<bool> has_ring_buffer() {
  const UniqueFd map{bpf_map_create(BPF_MAP_TYPE_RINGBUF, "uprobectl_probe", 0, 0,
                                    static_cast<std::uint32_t>(::getpagesize()), nullptr)};
  if (!map && is_shortage(errno)) return fail(system_error(errno, "cannot create a BPF map"));
  return static_cast<bool>(map);
}

// Linux commits ea317b267e9d ("bpf: Add new bpf map type to store the pointer to struct
// perf_event") in v4.3 and a43eec304259 ("bpf: introduce bpf_perf_event_output() helper") in v4.4.
bool has_perf_buffer() {
  const UniqueFd map{bpf_map_create(BPF_MAP_TYPE_PERF_EVENT_ARRAY, "uprobectl_probe",
                                    sizeof(std::uint32_t), sizeof(std::uint32_t), 1, nullptr)};
  return static_cast<bool>(map);
}

// CAP_PERFMON suffices in mainline kernels; Debian's and Android's require CAP_SYS_ADMIN if
// perf_event_paranoid is above 2.
bool may_open_perf_buffer() {
  perf_event_attr attributes = bpf_output_event();
  const UniqueFd event{static_cast<int>(
      ::syscall(SYS_perf_event_open, &attributes, -1, 0, -1, PERF_FLAG_FD_CLOEXEC))};
  return event || (errno != EACCES && errno != EPERM);
}

// Whether perf_event_open() reads its argument: seccomp filters and security modules reject the
// call before that. Programs are attached to events of tracefs through it.
bool may_call_perf_event_open() {
  const UniqueFd event{
      static_cast<int>(::syscall(SYS_perf_event_open, nullptr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC))};
  return errno != EACCES && errno != EPERM && errno != ENOSYS;
}

// Whether seccomp filters the system calls of this process: then errors say nothing about the
// kernel. True if /proc cannot be read.
bool has_system_call_filter() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("Seccomp:")) return !line.ends_with("\t0");
  return true;
}

// Linux commit f3f096cfedf8 ("tracing: Provide trace events interface for uprobes") in v3.5.
// Writes nothing. O_TRUNC would remove all events of the system.
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

bool kernel_has_symbol(std::string_view name) {
  std::ifstream symbols("/proc/kallsyms");
  const std::string end = " " + std::string(name);
  for (std::string line; std::getline(symbols, line);)
    if (line.ends_with(end)) return true;
  return false;
}

} // namespace

Result<UprobeEventSource> read_uprobe_event_source() {
  const auto type = read_sysfs("type");
  if (!type) return fail(type.error());
  const auto format = read_sysfs("format/retprobe"); // "config:0"
  if (!format) return fail(format.error());
  constexpr std::string_view field = "config:";
  const auto lowest_bit = [&](std::string_view text) {
    return text.starts_with(field) ? leading_number(text.substr(field.size())) : std::nullopt;
  };
  const auto number = leading_number(*type);
  const auto bit = lowest_bit(*format);
  if (!number || !bit || *bit > 63)
    return fail(ErrorKind::unsupported,
                "unsupported description of uprobe perf events in sysfs: type '" + *type +
                    "', retprobe '" + *format + "'");
  UprobeEventSource source{.type = *number, .return_flag = 1ULL << *bit};
  const auto semaphore = read_sysfs("format/ref_ctr_offset"); // "config:32-63"
  if (semaphore) source.semaphore_shift = lowest_bit(*semaphore);
  if (source.semaphore_shift > 63) source.semaphore_shift.reset();
  return source;
}

Result<KernelFeatures> probe_kernel_features() {
  if (auto enough = prepare_limits(); !enough) return fail(std::move(enough).error());
  const auto plain = load_trivial(0);
  if (!plain) return fail(bpf_load_error(plain.error(), "cannot load a BPF program"));

  KernelFeatures features;
  // Loading succeeds on kernels without multi links too; only creating a link shows support.
  if (const auto multi = load_trivial(attach_type_uprobe_multi)) {
    features.uprobe_multi = has_uprobe_multi(multi->get(), 0, EBADF);
    // Linux commit 46ba0e49b642 ("bpf: fix multi-uprobe PID filtering logic") in v6.10 rejects
    // negative pids, and makes the filter select the process instead of one thread.
    features.multi_pid_filter = features.uprobe_multi && has_uprobe_multi(multi->get(), -1, EINVAL);
  }
  // Linux commit d920179b3d48 ("bpf: Add support for uprobe multi session attach") in v6.13.
  if (const auto session = load_trivial(attach_type_uprobe_session))
    features.uprobe_session =
        has_uprobe_multi(session->get(), 0, EBADF, attach_type_uprobe_session);
  // Linux commit e12f03d7031a ("perf/core: Implement the 'perf_kprobe' PMU") and its uprobe twin
  // 33ea4b24277b, in v4.17.
  features.sysfs = ::access("/sys/kernel", F_OK) == 0;
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

insn::OptimizedNops probe_optimized_nops() {
  const std::uint32_t uprobe = host_arch_info().uprobe_system_call;
  if (uprobe == 0) return {};
  // The kernel accepts this system call only from the code that replaces nops: Linux commit
  // 56101b69c919 ("uprobes/x86: Add uprobe syscall to speed up uprobe") in v6.18. Kernels that
  // replace the longer nop return another error, for programs that have to know (commit
  // 554ba38456da in v7.2).
  ::syscall(static_cast<long>(uprobe));
  switch (errno) {
  case ENOSYS:
    if (!has_system_call_filter()) return {};
    break;
  case ENXIO:
    return {.five_bytes = true};
  case EPROTO:
    return {.ten_bytes = true};
  default:
    break;
  }
  return {.five_bytes = true, .ten_bytes = true};
}

// Linux commit cfa7f3d2c526 ("perf,x86: avoid missing caller address in stack traces captured in
// uprobe") in v6.12, which has added the member. The kernel knows endbr64 only if it has such
// instructions itself (CONFIG_X86_KERNEL_IBT), which adds the function ibt_save().
bool walk_finds_caller(Bytes code) {
  const insn::KnownEntry entry = insn::known_entry(host_arch, code);
  if (entry == insn::KnownEntry::none) return false;
  static const bool knows_push =
      kernel_structure_has("uprobe_task", "auprobe")
          .or_else([] { return std::optional(kernel_has_symbol("is_uprobe_at_func_entry")); })
          .value();
  if (!knows_push || entry == insn::KnownEntry::push_frame_pointer) return knows_push;
  static const bool knows_landing_pad = kernel_has_symbol("ibt_save");
  return knows_landing_pad;
}

bool kernel_has_perf_links() {
  const auto plain = load_trivial(0);
  return !plain || has_perf_link(plain->get());
}

std::string_view to_string(RecordBuffer buffer) {
  return buffer == RecordBuffer::ring ? "ring" : "perf";
}

Result<RecordBuffer> choose_buffer(std::optional<RecordBuffer> requested,
                                   const KernelFeatures& features) {
  if (requested != RecordBuffer::perf && features.ring_buffer) return RecordBuffer::ring;
  if (requested == RecordBuffer::ring)
    return fail(Error{ErrorKind::unsupported, "this kernel has no BPF ring buffer"}.hint(
        "use --buffer perf (Linux 4.4); ring buffers need Linux 5.8"));
  if (features.perf_buffer_permitted) return RecordBuffer::perf;
  if (features.perf_buffer)
    return fail(Error{ErrorKind::not_permitted, "this user may not open perf buffers"}.hint(
        "needs CAP_PERFMON, or root; some kernels require CAP_SYS_ADMIN if "
        "/proc/sys/kernel/perf_event_paranoid is above 2"));
  return fail(ErrorKind::unsupported, "this kernel has neither BPF ring buffers nor perf buffers");
}

} // namespace uprobectl::bpf
