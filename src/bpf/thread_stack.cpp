// SPDX-License-Identifier: Apache-2.0
#include "bpf/thread_stack.hpp"

#include "uprobectl/util.hpp"

#include <algorithm>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>
#include <vector>

namespace uprobectl {

namespace {

constexpr bpf_insn clear_r0 = {
    .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .src_reg = 0, .off = 0, .imm = 0};
constexpr bpf_insn tail_call = {
    .code = BPF_JMP | BPF_CALL, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = BPF_FUNC_tail_call};
constexpr bpf_insn leave = {
    .code = BPF_JMP | BPF_EXIT, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = 0};

bool is_tail_call(const bpf_insn& insn) {
  return insn.code == tail_call.code && insn.src_reg == 0 && insn.imm == tail_call.imm;
}

// Whether a program with the code of stay_on_thread_stack() and a function can be loaded. The
// interpreter cannot run tail calls from such programs (Linux commit e411901c0b77, "bpf: allow for
// tailcalls in BPF subprograms for x64 JIT").
bool kernel_takes_tail_calls() {
  const bpf_insn code[] = {
      clear_r0,
      {.code = BPF_JMP | BPF_JEQ | BPF_K, .dst_reg = BPF_REG_0, .src_reg = 0, .off = 1, .imm = 0},
      tail_call,
      {.code = BPF_JMP | BPF_CALL, .dst_reg = 0, .src_reg = BPF_PSEUDO_CALL, .off = 0, .imm = 1},
      leave,
      clear_r0, // the function
      leave,
  };
  const UniqueFd program{bpf_prog_load(BPF_PROG_TYPE_KPROBE, "uprobectl_probe", "GPL", code,
                                       std::size(code), nullptr)};
  return static_cast<bool>(program);
}

} // namespace

void adapt_tail_calls(bpf_object* object) {
  static const bool supported = kernel_takes_tail_calls();
  if (supported) return;
  bpf_program* program = nullptr;
  bpf_object__for_each_program(program, object) {
    const bpf_insn* const opened = bpf_program__insns(program);
    std::vector<bpf_insn> code(opened, opened + bpf_program__insn_cnt(program));
    std::ranges::replace_if(code, is_tail_call, clear_r0);
    // Only fails if the object is loaded, or without memory; loading reports that.
    bpf_program__set_insns(program, code.data(), code.size());
  }
}

} // namespace uprobectl
