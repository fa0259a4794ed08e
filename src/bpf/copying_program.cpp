// SPDX-License-Identifier: Apache-2.0
#include "bpf/copying_program.hpp"

#include "bpf/link.hpp"
#include "bpf/test_program.hpp"

#include <array>
#include <cerrno>

namespace uprobectl::bpf {

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
      move_register(BPF_REG_1, BPF_REG_10),
      add_to_register(BPF_REG_1, -8),
      move_number(BPF_REG_2, sizeof(std::uint64_t)),
      make_insn(wide, BPF_REG_3, 0, 0, static_cast<int>(address)),
      make_insn(0, 0, 0, 0, static_cast<int>(address >> 32)),
      call_helper(BPF_FUNC_copy_from_user),
      make_insn(wide, BPF_REG_1, BPF_PSEUDO_MAP_FD, 0, made.map_.get()),
      make_insn(0, 0, 0, 0, 0),
      move_register(BPF_REG_2, BPF_REG_10),
      add_to_register(BPF_REG_2, -12),
      call_helper(BPF_FUNC_map_lookup_elem),
      make_insn(BPF_JMP | BPF_JEQ | BPF_K, BPF_REG_0, 0, 2, 0), // to the end
      make_insn(BPF_LDX | BPF_MEM | BPF_DW, BPF_REG_1, BPF_REG_10, -8, 0),
      make_insn(BPF_STX | BPF_MEM | BPF_DW, BPF_REG_0, BPF_REG_1, 0, 0),
      move_number(BPF_REG_0, 0),
      exit_program,
  };
  LIBBPF_OPTS(bpf_prog_load_opts, options,
              .expected_attach_type = static_cast<bpf_attach_type>(expected_attach_type(kind)),
              .prog_flags = BPF_F_SLEEPABLE);
  auto program = load_test_program(code, &options);
  if (!program) return std::unexpected(program.error());
  made.program_ = std::move(*program);
  return made;
}

std::uint64_t CopyingProgram::copied() const {
  const std::uint32_t first = 0;
  std::uint64_t value = 0;
  return bpf_map_lookup_elem(map_.get(), &first, &value) == 0 ? value : 0;
}

} // namespace uprobectl::bpf
