#include "bpf/permission.hpp"

#include <bpf/libbpf.h>
#include <cerrno>

namespace uprobectl {

Error bpf_load_error(int errnum, std::string_view what) {
  const std::string subject(what);
  if (errnum == EPERM || errnum == EACCES)
    return Error{ErrorKind::not_permitted, subject + ": the kernel does not permit it"}.hint(
        "needs CAP_BPF and CAP_PERFMON (before Linux 5.8: CAP_SYS_ADMIN), or root");
  if (errnum == ENOSYS || errnum == EINVAL)
    return Error{ErrorKind::unsupported, subject + ": this kernel is built without what it needs"}
        .hint("needs CONFIG_BPF_SYSCALL, CONFIG_BPF_EVENTS and CONFIG_UPROBE_EVENTS");
  return system_error(errnum, what);
}

Result<std::size_t> possible_cpus() {
  const int count = ::libbpf_num_possible_cpus();
  if (count > 0) return static_cast<std::size_t>(count);
  return fail(Error{
      ErrorKind::unsupported,
      "the number of processors is not known: /sys/devices/system/cpu/possible cannot be read"}
                  .hint("mount sysfs: mount -t sysfs sysfs /sys"));
}

} // namespace uprobectl
