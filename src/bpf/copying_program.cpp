// SPDX-License-Identifier: Apache-2.0
#include "bpf/copying_program.hpp"

#include "bpf/link.hpp"

#include <array>
#include <bpf/bpf.h>
#include <cerrno>
#include <linux/bpf.h>

namespace uprobectl {

namespace {

// The instruction set: Linux Documentation/bpf/standardization/instruction-set.rst.
constexpr bpf_insn insn(int code, int destination, int source, int offset, int immediate) {
  return {.code = static_cast<__u8>(code),
          .dst_reg = static_cast<__u8>(destination & 15),
          .src_reg = static_cast<__u8>(source & 15),
          .off = static_cast<__s16>(offset),
          .imm = immediate};
}
constexpr bpf_insn move(int destination, int source) {
  return insn(BPF_ALU64 | BPF_MOV | BPF_X, destination, source, 0, 0);
}
constexpr bpf_insn move_number(int destination, int number) {
  return insn(BPF_ALU64 | BPF_MOV | BPF_K, destination, 0, 0, number);
}
constexpr bpf_insn add(int destination, int number) {
  return insn(BPF_ALU64 | BPF_ADD | BPF_K, destination, 0, 0, number);
}
constexpr bpf_insn call(int helper) { return insn(BPF_JMP | BPF_CALL, 0, 0, 0, helper); }
constexpr bpf_insn store_zero(int size, int offset) {
  return insn(BPF_ST | BPF_MEM | size, BPF_REG_10, 0, offset, 0);
}

} // namespace

std::expected<CopyingProgram, int> CopyingProgram::load(ProgramKind kind, const void* from) {
  CopyingProgram made;
  made.kind_ = kind;
  made.map_ = UniqueFd{bpf_map_create(BPF_MAP_TYPE_ARRAY, "uprobectl_probe", sizeof(std::uint32_t),
                                      sizeof(std::uint64_t), 1, nullptr)};
  if (!made.map_) return std::unexpected(errno);
  const auto address = reinterpret_cast<std::uintptr_t>(from);
  constexpr int wide = BPF_LD | BPF_IMM | BPF_DW; // takes two instructions
  const std::array code = {
      store_zero(BPF_DW, -8), // the copied bytes
      store_zero(BPF_W, -12), // the key
      move(BPF_REG_1, BPF_REG_10),
      add(BPF_REG_1, -8),
      move_number(BPF_REG_2, sizeof(std::uint64_t)),
      insn(wide, BPF_REG_3, 0, 0, static_cast<int>(address)),
      insn(0, 0, 0, 0, static_cast<int>(address >> 32)),
      call(BPF_FUNC_copy_from_user),
      insn(wide, BPF_REG_1, BPF_PSEUDO_MAP_FD, 0, made.map_.get()),
      insn(0, 0, 0, 0, 0),
      move(BPF_REG_2, BPF_REG_10),
      add(BPF_REG_2, -12),
      call(BPF_FUNC_map_lookup_elem),
      insn(BPF_JMP | BPF_JEQ | BPF_K, BPF_REG_0, 0, 2, 0), // to the end
      insn(BPF_LDX | BPF_MEM | BPF_DW, BPF_REG_1, BPF_REG_10, -8, 0),
      insn(BPF_STX | BPF_MEM | BPF_DW, BPF_REG_0, BPF_REG_1, 0, 0),
      move_number(BPF_REG_0, 0),
      insn(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
  };
  LIBBPF_OPTS(bpf_prog_load_opts, options,
              .expected_attach_type = static_cast<bpf_attach_type>(expected_attach_type(kind)),
              .prog_flags = BPF_F_SLEEPABLE);
  made.program_ = UniqueFd{bpf_prog_load(BPF_PROG_TYPE_KPROBE, "uprobectl_probe", "GPL",
                                         code.data(), code.size(), &options)};
  if (!made.program_) return std::unexpected(errno);
  return made;
}

std::uint64_t CopyingProgram::copied() const {
  const std::uint32_t first = 0;
  std::uint64_t value = 0;
  return bpf_map_lookup_elem(map_.get(), &first, &value) == 0 ? value : 0;
}

} // namespace uprobectl
