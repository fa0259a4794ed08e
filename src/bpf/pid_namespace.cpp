// SPDX-License-Identifier: Apache-2.0
#include "bpf/pid_namespace.hpp"

#include "bpf/kernel_types.hpp"
#include "bpf/load_error.hpp"
#include "bpf/test_program.hpp"
#include "util/rooted_path.hpp"

#include <array>
#include <cerrno>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

namespace uprobectl::bpf {

namespace {

// Linux commit b4490c5c4e02 ("bpf: Added new helper bpf_get_ns_current_pid_tgid") in v5.7: whether
// a program that calls it can be loaded. Fails if the kernel loads no program of this user.
Result<bool> has_id_helper() {
  constexpr int size = sizeof(bpf_pidns_info);
  const auto program = load_test_program(std::array{
      move_register(BPF_REG_3, BPF_REG_10), add_to_register(BPF_REG_3, -size),
      move_number(BPF_REG_1, 0), move_number(BPF_REG_2, 0), move_number(BPF_REG_4, size),
      call_helper(BPF_FUNC_get_ns_current_pid_tgid), move_number(BPF_REG_0, 0), exit_program});
  if (program) return true;
  const int errnum = program.error();
  if (errnum == EPERM || errnum == EACCES || is_shortage(errnum))
    return fail(bpf_load_error(errnum, "a program that asks for process ids of a pid namespace"));
  return false;
}

} // namespace

std::optional<PidNamespace> read_pid_namespace(const std::string& process) {
  const std::string link = process + "/ns/pid";
  const auto name = read_link(link);
  // Linux include/linux/proc_ns.h: PROC_PID_INIT_INO, 0xEFFFFFFC.
  if (!name || *name == "pid:[4026531836]") return std::nullopt;
  struct stat status{};
  if (::stat(link.c_str(), &status) != 0) return std::nullopt;
  return PidNamespace{
      .device = static_cast<std::uint32_t>(::major(status.st_dev) << 20 | ::minor(status.st_dev)),
      .inode = static_cast<std::uint32_t>(status.st_ino)};
}

Result<id_namespace> find_id_namespace() {
  const auto own = read_pid_namespace();
  if (!own) return id_namespace{};
  id_namespace ids = find_id_layout().value_or(id_namespace{});
  ids.inode = own->inode;
  const auto has_helper = has_id_helper();
  if (!has_helper) return fail(has_helper.error());
  if (*has_helper) ids.device = own->device;
  if (ids.device != 0 || ids.thread_pid != 0) return ids;
  return fail(
      Error{ErrorKind::unsupported, "this kernel does not report process ids of a pid namespace"}
          .hint("needs bpf_get_ns_current_pid_tgid() (Linux 5.7) or CONFIG_DEBUG_INFO_BTF")
          .hint("run uprobectl on the host, or in a container with the host's pids"));
}

} // namespace uprobectl::bpf
