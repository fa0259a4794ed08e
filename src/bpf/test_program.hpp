// SPDX-License-Identifier: Apache-2.0
// Makes small programs that show what the kernel can do. Source of the instructions: Linux
// Documentation/bpf/standardization/instruction-set.rst.
#pragma once

#include "uprobectl/util.hpp"

#include <bpf/bpf.h>
#include <expected>
#include <linux/bpf.h>
#include <span>

namespace uprobectl::bpf {

constexpr bpf_insn make_insn(int code, int destination, int source, int offset, int immediate) {
  return {.code = static_cast<__u8>(code),
          .dst_reg = static_cast<__u8>(destination & 15),
          .src_reg = static_cast<__u8>(source & 15),
          .off = static_cast<__s16>(offset),
          .imm = immediate};
}
constexpr bpf_insn move_register(int destination, int source) {
  return make_insn(BPF_ALU64 | BPF_MOV | BPF_X, destination, source, 0, 0);
}
constexpr bpf_insn move_number(int destination, int number) {
  return make_insn(BPF_ALU64 | BPF_MOV | BPF_K, destination, 0, 0, number);
}
constexpr bpf_insn add_to_register(int destination, int number) {
  return make_insn(BPF_ALU64 | BPF_ADD | BPF_K, destination, 0, 0, number);
}
// Stores 0 at an offset from the frame pointer. `size`: BPF_W, BPF_DW.
constexpr bpf_insn store_zero(int size, int offset) {
  return make_insn(BPF_ST | BPF_MEM | size, BPF_REG_10, 0, offset, 0);
}
constexpr bpf_insn call_helper(int helper) {
  return make_insn(BPF_JMP | BPF_CALL, 0, 0, 0, helper);
}
inline constexpr bpf_insn exit_program = make_insn(BPF_JMP | BPF_EXIT, 0, 0, 0, 0);

// Loads a program for uprobes. Returns an errno value if it fails.
inline std::expected<UniqueFd, int> load_test_program(std::span<const bpf_insn> code,
                                                      const bpf_prog_load_opts* options = nullptr) {
  const int fd = bpf_prog_load(BPF_PROG_TYPE_KPROBE, "uprobectl_probe", "GPL", code.data(),
                               code.size(), options);
  if (fd < 0) return std::unexpected(-fd);
  return UniqueFd{fd};
}

} // namespace uprobectl::bpf
