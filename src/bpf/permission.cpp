#include "bpf/permission.hpp"

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

} // namespace uprobectl
