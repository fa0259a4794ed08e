// SPDX-License-Identifier: Apache-2.0
#include "bpf/pid_namespace.hpp"

#include "bpf/kernel_types.hpp"
#include "bpf/load_error.hpp"

#include <array>
#include <bpf/bpf.h>
#include <cerrno>
#include <linux/bpf.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

namespace uprobectl {

namespace {

// Linux commit b4490c5c4e02 ("bpf: Added new helper bpf_get_ns_current_pid_tgid") in v5.7: whether
// a program that calls it can be loaded. Fails if the kernel loads no program of this user.
Result<bool> has_id_helper() {
  const auto move = [](std::uint8_t to, std::int32_t value) {
    return bpf_insn{
        .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = to, .src_reg = 0, .off = 0, .imm = value};
  };
  const bpf_insn code[] = {
      {.code = BPF_ALU64 | BPF_MOV | BPF_X,
       .dst_reg = BPF_REG_3,
       .src_reg = BPF_REG_10,
       .off = 0,
       .imm = 0},
      // BPF_ADD and BPF_K are 0.
      {.code = BPF_ALU64 | BPF_ADD,
       .dst_reg = BPF_REG_3,
       .src_reg = 0,
       .off = 0,
       .imm = -static_cast<std::int32_t>(sizeof(bpf_pidns_info))},
      move(BPF_REG_1, 0),
      move(BPF_REG_2, 0),
      move(BPF_REG_4, sizeof(bpf_pidns_info)),
      {.code = BPF_JMP | BPF_CALL,
       .dst_reg = 0,
       .src_reg = 0,
       .off = 0,
       .imm = BPF_FUNC_get_ns_current_pid_tgid},
      move(BPF_REG_0, 0),
      {.code = BPF_JMP | BPF_EXIT, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = 0},
  };
  const UniqueFd program{bpf_prog_load(BPF_PROG_TYPE_KPROBE, "uprobectl_probe", "GPL", code,
                                       std::size(code), nullptr)};
  const int errnum = errno;
  if (!program && (errnum == EPERM || errnum == EACCES || is_shortage(errnum)))
    return fail(bpf_load_error(errnum, "a program that asks for process ids of a pid namespace"));
  return static_cast<bool>(program);
}

} // namespace

std::optional<PidNamespace> read_pid_namespace(const std::string& process) {
  const std::string link = process + "/ns/pid";
  std::array<char, 64> name{};
  const ssize_t size = ::readlink(link.c_str(), name.data(), name.size());
  // Linux include/linux/proc_ns.h: PROC_PID_INIT_INO, 0xEFFFFFFC.
  if (size <= 0 ||
      std::string_view(name.data(), static_cast<std::size_t>(size)) == "pid:[4026531836]")
    return std::nullopt;
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

} // namespace uprobectl
