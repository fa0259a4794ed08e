// SPDX-License-Identifier: Apache-2.0
#include "bpf/thread_stack.hpp"

#include "bpf/test_program.hpp"

#include <algorithm>
#include <array>
#include <bpf/libbpf.h>
#include <cerrno>
#include <vector>

namespace uprobectl::bpf {

namespace {

constexpr bpf_insn clear_r0 = move_number(BPF_REG_0, 0);
constexpr bpf_insn tail_call = call_helper(BPF_FUNC_tail_call);

constexpr bpf_insn call_function(int distance) {
  return make_insn(BPF_JMP | BPF_CALL, 0, BPF_PSEUDO_CALL, 0, distance);
}

bool is_tail_call(const bpf_insn& insn) {
  return insn.code == tail_call.code && insn.src_reg == 0 && insn.imm == tail_call.imm;
}

// Whether a program with the code of stay_on_thread_stack() and a function can be loaded. The
// interpreter cannot run tail calls from such programs (Linux commit e411901c0b77, "bpf: allow for
// tailcalls in BPF subprograms for x64 JIT"). That error is EINVAL. After any other one programs
// keep their tail calls: without them the kernel could crash.
bool kernel_takes_tail_calls() {
  const auto loaded = load_test_program(std::array{
      clear_r0,
      make_insn(BPF_JMP | BPF_JEQ | BPF_K, BPF_REG_0, 0, 1, 0),
      tail_call,
      call_function(1),
      exit_program,
      clear_r0, // the function
      exit_program,
  });
  return loaded || loaded.error() != EINVAL;
}

// BPF_PRIV_STACK_MIN_SIZE of Linux kernel/bpf/verifier.c is 64; round_up_stack_depth() rounds up to
// a multiple of 16.
constexpr int max_shared_stack = 48;

// The lowest offset from the frame pointer that any instruction refers to, in bytes. Compilers add
// the offset to a copy of r10 right away.
int lowest_stack_offset(std::span<const bpf_insn> code) {
  int lowest = 0;
  std::array<bool, 16> is_frame_pointer{};
  is_frame_pointer[BPF_REG_10] = true;
  for (std::size_t i = 0; i < code.size(); ++i) {
    const bpf_insn& insn = code[i];
    const unsigned kind = BPF_CLASS(insn.code);
    const bool stores = kind == BPF_ST || kind == BPF_STX;
    if (stores && is_frame_pointer[insn.dst_reg]) lowest = std::min<int>(lowest, insn.off);
    if (stores) continue;
    if (kind == BPF_LDX && is_frame_pointer[insn.src_reg]) lowest = std::min<int>(lowest, insn.off);
    if (insn.code == (BPF_ALU64 | BPF_ADD | BPF_K) && is_frame_pointer[insn.dst_reg])
      lowest = std::min(lowest, insn.imm);
    if (kind == BPF_JMP || kind == BPF_JMP32 || insn.dst_reg == BPF_REG_10) continue;
    is_frame_pointer[insn.dst_reg] =
        insn.code == (BPF_ALU64 | BPF_MOV | BPF_X) && insn.src_reg == BPF_REG_10;
    if (insn.code == (BPF_LD | BPF_IMM | BPF_DW)) ++i; // takes two instructions
  }
  return lowest;
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

// The stacks of a program and of what it calls may have 512 bytes together, but private ones are
// not added up.
bool kernel_has_private_stacks() {
  constexpr int more_than_half = 320;
  static const bool found =
      load_test_program(std::array{
                            store_zero(BPF_DW, -more_than_half),
                            call_function(2),
                            clear_r0,
                            exit_program,
                            store_zero(BPF_DW, -more_than_half), // the function
                            clear_r0,
                            exit_program,
                        })
          .has_value();
  return found;
}

bool wants_private_stack(std::span<const bpf_insn> code) {
  return std::ranges::none_of(code, is_tail_call) && lowest_stack_offset(code) < -max_shared_stack;
}

} // namespace uprobectl::bpf
