#include "bpf/probe_copy.hpp"

#include "bpf/record.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <cerrno>
#include <linux/bpf.h>
#include <vector>

namespace uprobectl {

namespace {

// A constant of 64 bits takes two instructions, the second of which is nothing but its upper half
// (Linux Documentation/bpf/instruction-set.rst).
std::uint64_t wide_constant(const bpf_insn* code) {
  return static_cast<std::uint32_t>(code[0].imm) |
         static_cast<std::uint64_t>(static_cast<std::uint32_t>(code[1].imm)) << 32;
}

} // namespace

std::expected<UniqueFd, int> load_copy_with_cookie(const bpf_program* program,
                                                   std::uint64_t cookie) {
  const bpf_insn* const loaded = bpf_program__insns(program);
  std::vector<bpf_insn> code(loaded, loaded + bpf_program__insn_cnt(program));
  std::size_t replaced = 0;
  for (std::size_t i = 0; i + 1 < code.size(); ++i) {
    if (code[i].code != (BPF_LD | BPF_IMM | BPF_DW)) continue;
    if (code[i].src_reg == 0 && wide_constant(&code[i]) == NUMBER_PLACEHOLDER) {
      code[i].imm = static_cast<std::int32_t>(cookie);
      code[i + 1].imm = static_cast<std::int32_t>(cookie >> 32);
      ++replaced;
    }
    ++i;
  }
  if (replaced == 0) return std::unexpected(EINVAL); // not one that is to be copied
  LIBBPF_OPTS(bpf_prog_load_opts, options);
  const int fd = bpf_prog_load(BPF_PROG_TYPE_KPROBE, bpf_program__name(program), "Dual BSD/GPL",
                               code.data(), code.size(), &options);
  if (fd < 0) return std::unexpected(-fd);
  return UniqueFd{fd};
}

} // namespace uprobectl
