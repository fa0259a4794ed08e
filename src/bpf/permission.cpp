#include "bpf/permission.hpp"

#include "bpf/libbpf_log.hpp"
#include "bpf/owned_types.hpp"

#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <cerrno>
#include <linux/seccomp.h>
#include <sys/prctl.h>

namespace uprobectl {

bool is_shortage(int errnum) { return errnum == ENOMEM || errnum == EMFILE || errnum == ENFILE; }

Error with_filter_hint(Error error) {
  // Without /proc, too. In the strict mode nothing but read and write would have come this far.
  if (::prctl(PR_GET_SECCOMP) != SECCOMP_MODE_FILTER) return error;
  return std::move(error).hint(
      "a seccomp filter is in force, which may be what refuses it: start it "
      "without, for containers: --security-opt seccomp=unconfined");
}

Error bpf_load_error(int errnum, std::string_view what) {
  const std::string subject(what);
  if (errnum == EPERM || errnum == EACCES)
    return with_filter_hint(
        Error{ErrorKind::not_permitted, subject + ": the kernel does not permit it"}.hint(
            "needs CAP_BPF and CAP_PERFMON (before Linux 5.8: CAP_SYS_ADMIN), or root"));
  if (errnum == ENOSYS || errnum == EINVAL)
    return Error{ErrorKind::unsupported, subject + ": this kernel is built without what it needs"}
        .hint("needs CONFIG_BPF_SYSCALL, CONFIG_BPF_EVENTS and CONFIG_UPROBE_EVENTS");
  return system_error(errnum, what);
}

namespace {

// libbpf says ESRCH for whatever keeps it from reading the kernel's types.
std::optional<Error> kernel_types_error(int errnum) {
  if (errnum != ESRCH) return std::nullopt;
  if (const OwnedTypes types(btf__parse(kernel_types_path, nullptr)); types) return std::nullopt;
  return system_error(errno, std::string("cannot read the kernel's types, ") + kernel_types_path);
}

} // namespace

Error bpf_load_error(int errnum, std::string_view what, std::string_view verifier_log,
                     const std::string& libbpf_said) {
  if (is_shortage(errnum)) return system_error(errnum, what);
  if (auto types = kernel_types_error(errnum)) return std::move(*types).within(what);
  // Of each name of the helper: bpf_probe_read, bpf_probe_read_kernel, bpf_probe_read_kernel_str.
  for (const std::string_view refusal :
       {"cannot use helper bpf_probe_read", "unknown func bpf_probe_read"})
    if (verifier_log.contains(refusal))
      return Error{ErrorKind::unsupported,
                   std::string(what) + ": this kernel does not let BPF programs read its memory"}
          .hint("boot without lockdown=confidentiality, or leave out what needs it: --stack=dwarf; "
                "--stack=fp does not");
  Error error = bpf_load_error(errnum, what);
  if (const std::string verifier = last_lines(verifier_log, 3); !verifier.empty())
    return std::move(error).hint("the verifier said: " + verifier);
  return libbpf_said.empty() ? error : std::move(error).hint("libbpf said: " + libbpf_said);
}

Error unknown_processors() {
  return Error{ErrorKind::unsupported, "the number of processors is not known: "
                                       "/sys/devices/system/cpu/possible cannot be read"}
      .hint("mount -t sysfs sysfs /sys");
}

Result<std::size_t> possible_cpus() {
  const int count = ::libbpf_num_possible_cpus();
  if (count > 0) return static_cast<std::size_t>(count);
  return fail(unknown_processors());
}

} // namespace uprobectl
