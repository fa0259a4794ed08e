// SPDX-License-Identifier: Apache-2.0
// Logs are those of the kernels that the names say, some of them from a later line on.
#include "bpf/load_error.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::bpf {

namespace {

constexpr std::string_view linux_5_10_access = R"(arg#0 type is not a struct
Unrecognized arg#0 type PTR
; SEC("uprobe") int f(void *c) { return *(volatile int*)8; }
0: (b7) r1 = 8
; SEC("uprobe") int f(void *c) { return *(volatile int*)8; }
1: (61) r0 = *(u32 *)(r1 +0)
R1 invalid mem access 'inv'
processed 2 insns (limit 1000000) max_states_per_insn 0 total_states 0 peak_states 0 mark_read 0
)";

constexpr std::string_view linux_5_10_range = R"(11: (0f) r7 += r0
last_idx 11 first_idx 10
regs=1 stack=0 before 10: (54) w0 &= 15
 R0_rw=invP(id=0) R6_w=inv0 R7_rw=map_value(id=0,off=0,ks=4,vs=8,imm=0) R10=fp0 fp-8=mmmm????
parent didn't have regs=1 stack=0 marks
last_idx 9 first_idx 0
regs=1 stack=0 before 9: (85) call bpf_get_prandom_u32#7
12: (71) r6 = *(u8 *)(r7 +0)
 R0_w=inv(id=0,umax_value=15,var_off=(0x0; 0xf)) R6_w=inv0 R7_w=map_value(id=0,off=0,ks=4,vs=8,umax_value=15,var_off=(0x0; 0xf)) R10=fp0 fp-8=mmmm????
invalid access to map value, value_size=8 off=15 size=1
R7 max value is outside of the allowed memory range
processed 12 insns (limit 1000000) max_states_per_insn 0 total_states 1 peak_states 1 mark_read 1
)";

constexpr std::string_view linux_6_12_loop =
    R"(7: (63) *(u32 *)(r10 -4) = r0         ; R0_w=scalar(smin=0,smax=umax=0xffffffff,var_off=(0x0; 0xffffffff)) R10=fp0 fp-8=mmmm????
8: (85) call bpf_get_prandom_u32#7
infinite loop detected at insn 9
cur state: R0_w=scalar() R10=fp0 fp-8=mmmm????
old state: R0_rw=scalar() R10=fp0 fp-8_r=mmmm????
processed 17 insns (limit 1000000) max_states_per_insn 0 total_states 1 peak_states 1 mark_read 1
)";

constexpr std::string_view linux_7_3_access =
    R"(arg#0 reference type('UNKNOWN ') size cannot be determined: -22
0: R1=ctx() R10=fp0
; int read_nowhere(void* context) { return *(volatile int*)8; } @ refused.bpf.c:7
0: (b7) r1 = 8                        ; R1=8
1: (61) r0 = *(u32 *)(r1 +0)
R1 invalid mem access 'scalar'

Verification failed: Register Type Safety: Invalid dereference

Reason:
  R1 is an integer scalar here, not a pointer to memory.

At:
  read_nowhere @ refused.bpf.c:7:42
  Source context:
      5 | ...
      6 | ...
  >>> 7 | int read_nowhere(void* context) { return *(volatile int*)8; }
        | ^-- error: invalid dereference of R1 (an integer scalar)
      8 | ...
      9 | ...
  Instruction context:
      0 | (b7) r1 = 8
  >>> 1 | (61) r0 = *(u32 *)(r1 +0)
      2 | (95) exit

Causal path:
  read_nowhere @ refused.bpf.c:7:0
  Source context:
      5 | ...
      6 | ...
  >>> 7 | int read_nowhere(void* context) { return *(volatile int*)8; }
        | ^-- update: R1 changed from context pointer at offset 0 to integer scalar value 8
      8 | ...
      9 | ...
  Instruction context:
  >>> 0 | (b7) r1 = 8
      1 | (61) r0 = *(u32 *)(r1 +0)
      2 | (95) exit

Suggestion:
  Preserve a pointer-valued register where needed, or reload and revalidate the pointer after scalar
  arithmetic, helper calls, or other operations that can invalidate it.

processed 2 insns (limit 1000000) max_states_per_insn 0 total_states 0 peak_states 0 mark_read 0
)";

constexpr std::string_view linux_7_3_leak = R"(3: (b7) r3 = 0                        ; R3=0
4: (85) call bpf_ringbuf_reserve#131          ; R0=ringbuf_mem_or_null(id=2,sz=8) refs=2
5: (15) if r0 == 0x0 goto pc+2        ; R0=ringbuf_mem(id=2,sz=8) refs=2
6: (b7) r1 = 1                        ; R1=1 refs=2
7: (7b) *(u64 *)(r0 +0) = r1          ; refs=2
8: (b4) w0 = 0                        ; R0=0 refs=2
9: (95) exit
Unreleased reference id=2 alloc_insn=4

Verification failed: Resource Lifetime Safety: Unreleased resource

Reason:
  Owned resource (id=2) was acquired at instruction 4 and still needs to be released before this
  exit path.

At:
  f @ leak.bpf.c:8:108
  Source context:
       6 | ...
       7 | ...
  >>>  8 | SEC("uprobe") int f(void *c) { __u64 *v=bpf_ringbuf_reserve(&ring, 8, 0); if...
         | ^-- error: owned resource (id=2) still needs release
       9 | ...
      10 | ...
  Instruction context:
      7 | (7b) *(u64 *)(r0 +0) = r1
      8 | (b4) w0 = 0
  >>> 9 | (95) exit

Causal path:
  f @ leak.bpf.c:8:41
  Source context:
       6 | ...
       7 | ...
  >>>  8 | SEC("uprobe") int f(void *c) { __u64 *v=bpf_ringbuf_reserve(&ring, 8, 0); if...
         | ^-- acquired: owned resource (id=2)
       9 | ...
      10 | ...
  Instruction context:
      2 | (b7) r2 = 8
      3 | (b7) r3 = 0
  >>> 4 | (85) call bpf_ringbuf_reserve#131
      5 | (15) if r0 == 0x0 goto pc+2
      6 | (b7) r1 = 1

  f @ leak.bpf.c:8:78
  Source context:
       6 | ...
       7 | ...
  >>>  8 | SEC("uprobe") int f(void *c) { __u64 *v=bpf_ringbuf_reserve(&ring, 8, 0); if...
         | ^-- branch: took the false branch of this conditional, goto not followed
       9 | ...
      10 | ...
  Instruction context:
      3 | (b7) r3 = 0
      4 | (85) call bpf_ringbuf_reserve#131
  >>> 5 | (15) if r0 == 0x0 goto pc+2
      6 | (b7) r1 = 1
      7 | (7b) *(u64 *)(r0 +0) = r1

Suggestion:
  Release or transfer ownership of the acquired resource on every path before the program exits.

BPF_EXIT instruction in main prog would lead to reference leak
processed 9 insns (limit 1000000) max_states_per_insn 0 total_states 1 peak_states 1 mark_read 0
)";

} // namespace

TEST_CASE("the verifier's log names the last instruction and its error") {
  CHECK(find_rejection(linux_5_10_access) == "1: (61) r0 = *(u32 *)(r1 +0)\n"
                                             "R1 invalid mem access 'inv'");
  CHECK(find_rejection(linux_5_10_range) ==
        "12: (71) r6 = *(u8 *)(r7 +0)\n"
        "invalid access to map value, value_size=8 off=15 size=1\n"
        "R7 max value is outside of the allowed memory range");
}

TEST_CASE("states of the program after the error are left out") {
  CHECK(find_rejection(linux_6_12_loop) == "8: (85) call bpf_get_prandom_u32#7\n"
                                           "infinite loop detected at insn 9");
}

TEST_CASE("of an explained error the reason is taken, not the advice") {
  CHECK(find_rejection(linux_7_3_access) ==
        "1: (61) r0 = *(u32 *)(r1 +0)\n"
        "R1 invalid mem access 'scalar'\n"
        "R1 is an integer scalar here, not a pointer to memory.");
  CHECK(find_rejection(linux_7_3_leak) ==
        "9: (95) exit\n"
        "Unreleased reference id=2 alloc_insn=4\n"
        "Owned resource (id=2) was acquired at instruction 4 and still needs to be released before "
        "this exit path.");
}

TEST_CASE("a log without instructions has the error alone") {
  CHECK(find_rejection("Only fentry/fexit/fmod_ret and lsm programs can be sleepable\n"
                       "processed 0 insns (limit 1000000) max_states_per_insn 0 total_states 0 "
                       "peak_states 0 mark_read 0\n") ==
        "Only fentry/fexit/fmod_ret and lsm programs can be sleepable");
  CHECK(find_rejection("processed 3 insns (limit 1000000)\n").empty());
  CHECK(find_rejection("").empty());
  CHECK(find_rejection("Verification failed: Register Type Safety: Invalid dereference\n").empty());
}

} // namespace uprobectl::bpf
