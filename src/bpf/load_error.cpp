// SPDX-License-Identifier: Apache-2.0
#include "bpf/load_error.hpp"

#include "bpf/kernel_types.hpp"
#include "bpf/test_program.hpp"
#include "util/descriptor_io.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <array>
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <ranges>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

namespace uprobectl::bpf {

namespace {

constexpr std::size_t max_collected = 16384;

// libbpf's callback has no context argument.
thread_local std::string* collected = nullptr;

int collect(libbpf_print_level level, const char* format, va_list arguments) {
  if (level != LIBBPF_WARN || collected == nullptr || collected->size() > max_collected) return 0;
  std::array<char, 1024> line{};
  const int size = std::vsnprintf(line.data(), line.size(), format, arguments);
  if (size > 0) *collected += line.data();
  return size;
}

// libbpf returns ESRCH for any error while reading the kernel's types.
std::optional<Error> kernel_types_error(int errnum) {
  if (errnum != ESRCH) return std::nullopt;
  if (const OwnedBtf types(btf__parse(kernel_types_path, nullptr)); types)
    return Error{ErrorKind::unsupported,
                 "a program is for a function that this kernel does not have"};
  return system_error(errno, std::string("cannot read the kernel's types, ") + kernel_types_path);
}

// Whether BPF_PROG_LOAD gets as far as a check that follows the permissions: a program for probes
// has no type of the kernel to attach to. Takes no memory.
bool may_load_programs() {
  LIBBPF_OPTS(bpf_prog_load_opts, options, .attach_btf_id = 1);
  const auto program = load_test_program({&exit_program, 1}, &options);
  return program || (program.error() != EPERM && program.error() != EACCES);
}

// Whether a user who may lock no memory can create no map.
bool kernel_counts_locked_memory() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return false;
  const rlimit none{.rlim_cur = 0, .rlim_max = limit.rlim_max};
  ::setrlimit(RLIMIT_MEMLOCK, &none);
  const UniqueFd map{bpf_map_create(BPF_MAP_TYPE_ARRAY, "uprobectl_probe", sizeof(std::uint32_t),
                                    sizeof(std::uint32_t), 1, nullptr)};
  const bool is_refused = !map && errno == EPERM;
  ::setrlimit(RLIMIT_MEMLOCK, &limit);
  return is_refused && may_load_programs();
}

// Confined domains may not read it.
bool is_selinux_enforcing() {
  const UniqueFd file{::open("/sys/fs/selinux/enforce", O_RDONLY | O_CLOEXEC)};
  if (!file) return errno == EACCES;
  char enforces = '0';
  return ::read(file.get(), &enforces, 1) != 1 || enforces != '0';
}

// Linux security/lockdown: the mode in force is in brackets.
bool is_locked_down() {
  const UniqueFd file{::open("/sys/kernel/security/lockdown", O_RDONLY | O_CLOEXEC)};
  std::array<char, 64> text{};
  const ssize_t size = file ? ::read(file.get(), text.data(), text.size()) : 0;
  return std::string_view(text.data(), size < 0 ? 0 : static_cast<std::size_t>(size))
      .contains("[confidentiality]");
}

// "1: (61) r0 = *(u32 *)(r1 +0)", "1: <invalid CO-RE relocation>"
bool is_instruction(std::string_view line) {
  const auto end = line.find_first_not_of("0123456789");
  return end != 0 && end != std::string_view::npos &&
         (line.substr(end).starts_with(": (") || line.substr(end).starts_with(": <"));
}

// Whether a line of the verifier's log is empty or shows what it knows (Linux
// kernel/bpf/verifier.c), so that it does not name an error.
bool is_state_of_program(std::string_view line) {
  constexpr std::array<std::string_view, 7> states = {"processed ", "cur state:", "old state:", " ",
                                                      ";",          "last_idx ",  "regs="};
  return line.empty() ||
         std::ranges::any_of(states, [&](std::string_view each) { return line.starts_with(each); });
}

// Returns the paragraph "Reason:" of the rest of a log, in one line; empty if there is none.
std::string take_reason(std::string_view log) {
  while (!log.empty() && take_line(log) != "Reason:") {
  }
  std::vector<std::string_view> lines;
  while (log.starts_with("  ")) lines.push_back(trimmed(take_line(log)));
  return joined(lines, " ");
}

// capget(2) has no function in libc.
bool may_administer() {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> data{};
  return ::syscall(SYS_capget, &header, data.data()) == 0 &&
         (data.front().effective >> CAP_SYS_ADMIN & 1U) != 0;
}

} // namespace

void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

void raise_memory_limit() {
  rlimit limit{.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
  if (::setrlimit(RLIMIT_MEMLOCK, &limit) == 0 || ::getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_MEMLOCK, &limit);
}

std::optional<std::uint64_t> bpf_memory_limit() {
  raise_memory_limit();
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return std::nullopt;
  static const bool counts = kernel_counts_locked_memory();
  if (!counts) return std::nullopt;
  return limit.rlim_cur;
}

bool exceeds_bpf_memory_limit(int errnum) {
  return errnum == EPERM && bpf_memory_limit().has_value();
}

Result<void> prepare_limits() {
  constexpr std::size_t needed = 48; // maps, programs, links, buffers and files of a small run
  raise_descriptor_limit();
  raise_memory_limit();
  if (const auto free = check_free_descriptors(needed); !free)
    return fail(system_error(free.error(),
                             "BPF needs " + std::to_string(needed) + " free file descriptors"));
  return {};
}

LibbpfLog::LibbpfLog() {
  collected = &text_;
  libbpf_set_print(collect);
}

LibbpfLog::~LibbpfLog() {
  libbpf_set_print(nullptr);
  collected = nullptr;
}

std::string LibbpfLog::cause() const {
  // libbpf raises the limit of locked memory if its test for Linux 5.11 fails, and makes a map
  // again without its types. The next message says why that has failed, too.
  std::string_view text = text_;
  std::string line(take_line(text));
  while (!text.empty() && (line.starts_with("libbpf: Failed to bump RLIMIT_MEMLOCK") ||
                           line.ends_with("Retrying without BTF.")))
    line = take_line(text);
  constexpr std::string_view prefix = "libbpf: ";
  if (line.starts_with(prefix)) line.erase(0, prefix.size());
  return line;
}

std::string find_rejection(std::string_view log) {
  constexpr std::size_t max_lines = 4; // in `lines`: where the error is
  std::vector<std::string_view> lines;
  std::string reason;
  while (!log.empty()) {
    const std::string_view line = take_line(log);
    if (line.starts_with("Verification failed: ")) {
      reason = take_reason(log);
      break;
    }
    if (!is_state_of_program(line)) lines.push_back(line);
  }
  auto first = std::ranges::find_if(lines | std::views::reverse, is_instruction).base();
  if (first != lines.begin()) --first;
  if (static_cast<std::size_t>(lines.end() - first) > max_lines) first = lines.end() - 2;
  std::string rejection = joined(std::ranges::subrange(first, lines.end()), "\n");
  if (!reason.empty()) rejection += rejection.empty() ? reason : '\n' + reason;
  return rejection;
}

bool is_shortage(int errnum) { return errnum == ENOMEM || errnum == EMFILE || errnum == ENFILE; }

// No capability and no mount helps against lockdown, so other hints would mislead
// (kernel_lockdown(7)).
Error with_lockdown_hint(Error error) {
  if (may_administer() && is_locked_down())
    error.hints = {"the kernel is locked down, for root, too (/sys/kernel/security/lockdown): boot "
                   "without lockdown=confidentiality"};
  return error;
}

Error with_refusal_hints(Error error) {
  if (may_administer() && is_locked_down()) return with_lockdown_hint(std::move(error));
  if (is_selinux_enforcing())
    error.hints.emplace_back("SELinux is enforcing (getenforce) and may deny it: look for 'avc: "
                             "denied' in: dmesg | grep avc");
  // Works without /proc. The strict mode cannot be in force here: it allows read and write only.
  if (::prctl(PR_GET_SECCOMP) == SECCOMP_MODE_FILTER)
    error.hints.emplace_back("a seccomp filter is in force and may reject it: run without the "
                             "filter, in containers with --security-opt seccomp=unconfined");
  return error;
}

Error bpf_load_error(int errnum, std::string_view what) {
  const std::string subject(what);
  if (exceeds_bpf_memory_limit(errnum))
    return Error{ErrorKind::not_permitted,
                 subject + ": BPF memory exceeds the limit of locked memory, RLIMIT_MEMLOCK, of " +
                     std::to_string(*bpf_memory_limit()) + " bytes"}
        .hint("Linux before 5.11 counts BPF memory as locked memory: ulimit -l unlimited as root, "
              "systemd: LimitMEMLOCK=infinity, or give it CAP_SYS_RESOURCE as well");
  if (errnum == EPERM || errnum == EACCES)
    return with_refusal_hints(
        Error{ErrorKind::not_permitted, subject + ": the kernel does not permit it"}.hint(
            "needs CAP_BPF and CAP_PERFMON (before Linux 5.8: CAP_SYS_ADMIN), or root"));
  if (errnum == ENOSYS || errnum == EINVAL)
    return Error{ErrorKind::unsupported, subject + ": not supported by this kernel"}.hint(
        "needs CONFIG_BPF_SYSCALL, CONFIG_BPF_EVENTS and CONFIG_UPROBE_EVENTS");
  return system_error(errnum, what);
}

Error bpf_load_error(int errnum, std::string_view what, std::string_view verifier_log,
                     const std::string& libbpf_message) {
  if (is_shortage(errnum)) return system_error(errnum, what);
  if (auto types = kernel_types_error(errnum)) {
    Error error = std::move(*types).within(what);
    return libbpf_message.empty() ? error : std::move(error).hint("libbpf said: " + libbpf_message);
  }
  // Matches all names of the helper: bpf_probe_read, bpf_probe_read_kernel,
  // bpf_probe_read_kernel_str.
  for (const std::string_view rejection :
       {"cannot use helper bpf_probe_read", "unknown func bpf_probe_read"})
    if (verifier_log.contains(rejection))
      return Error{ErrorKind::unsupported,
                   std::string(what) + ": this kernel does not let BPF programs read its memory"}
          .hint(
              "boot without lockdown=confidentiality, or use --stack=fp instead of --stack=dwarf");
  // libbpf names the map or program: the kernel itself has all that it needs for others.
  Error error =
      errnum == EINVAL && !libbpf_message.empty()
          ? Error{ErrorKind::unsupported, std::string(what) + ": not supported by this kernel"}
          : bpf_load_error(errnum, what);
  if (const std::string verifier = find_rejection(verifier_log); !verifier.empty())
    return std::move(error).hint("the verifier said: " + verifier);
  return libbpf_message.empty() ? error : std::move(error).hint("libbpf said: " + libbpf_message);
}

Error unknown_cpu_count() {
  return Error{ErrorKind::unsupported,
               "cannot read the number of CPUs from /sys/devices/system/cpu/possible"}
      .hint("mount -t sysfs sysfs /sys");
}

Result<std::size_t> possible_cpus() {
  const int count = ::libbpf_num_possible_cpus();
  if (count > 0) return static_cast<std::size_t>(count);
  return fail(unknown_cpu_count());
}

} // namespace uprobectl::bpf
