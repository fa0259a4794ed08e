/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* What Android's UprobeStats calls GenericInstrumentation: programs for any Java method, which tell
 * of each call its arguments or its time. Sections, maps and records have the names and layouts of
 * AOSP packages/modules/UprobeStats src/bpf_progs, so that
 *
 *     uprobectl load GenericInstrumentation.o --pin DIR --naming uprobestats
 *
 * pins what its task files ask for. Registers are those of the machine, in the order of ART's
 * calling convention: the ArtMethod, `this` unless the method is static, then the parameters. */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "../../src/bpf/programs/registers.h"
#include "../../src/bpf/programs/thread_stack.h"

#define CALL_REGISTERS 10

struct CallResult {
  __u64 pc;
  __u64 regs[CALL_REGISTERS]; /* arm64: x0 to x9; x86-64: rdi rsi rdx rcx r8 r9, then 0 */
};

struct CallTimestamp {
  __u32 event; /* which of the programs: 0 for call_timestamp, N for call_timestamp_N */
  __u32 unused;
  __u64 timestampNs; /* CLOCK_MONOTONIC */
};

/* A multiple of any page size. Records wake the reader whenever it has read all there was. */
#define BUFFER_SIZE (1 << 18)

struct {
  __uint(type, BPF_MAP_TYPE_RINGBUF);
  __uint(max_entries, BUFFER_SIZE);
} call_detail_buf SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_RINGBUF);
  __uint(max_entries, BUFFER_SIZE);
} call_timestamp_buf SEC(".maps");

/* What found its buffer full, by the convention of uprobectl's docs/bpf-programs.md. */
struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, __u64);
} lost SEC(".maps");

static __always_inline int count_lost(void) {
  __u32 index = 0;
  __u64* count = bpf_map_lookup_elem(&lost, &index);
  if (count) __sync_fetch_and_add(count, 1);
  return 0;
}

static __always_inline void read_registers(struct registers* regs, __u64* into) {
  into[0] = ARGUMENT_0(regs);
  into[1] = ARGUMENT_1(regs);
  into[2] = ARGUMENT_2(regs);
  into[3] = ARGUMENT_3(regs);
  into[4] = ARGUMENT_4(regs);
  into[5] = ARGUMENT_5(regs);
#if defined(TARGET_AARCH64)
  into[6] = regs->word[ARM64_X0 + 6];
  into[7] = regs->word[ARM64_X0 + 7];
  into[8] = regs->word[ARM64_X0 + 8];
  into[9] = regs->word[ARM64_X0 + 9];
#else
  into[6] = into[7] = into[8] = into[9] = 0;
#endif
}

SEC("uprobe/call_detail")
int call_detail(struct registers* regs) {
  stay_on_thread_stack();
  struct CallResult* call = bpf_ringbuf_reserve(&call_detail_buf, sizeof(*call), 0);
  if (!call) return count_lost();
  call->pc = PROBED_ADDRESS(regs);
  read_registers(regs, call->regs);
  bpf_ringbuf_submit(call, 0);
  return 0;
}

static __always_inline int tell_time(__u32 event) {
  struct CallTimestamp* call = bpf_ringbuf_reserve(&call_timestamp_buf, sizeof(*call), 0);
  if (!call) return count_lost();
  call->event = event;
  call->unused = 0;
  call->timestampNs = bpf_ktime_get_ns();
  bpf_ringbuf_submit(call, 0);
  return 0;
}

SEC("uprobe/call_timestamp")
int call_timestamp(struct registers* regs) { return tell_time(0); }
SEC("uprobe/call_timestamp_1")
int call_timestamp_1(struct registers* regs) { return tell_time(1); }
SEC("uprobe/call_timestamp_2")
int call_timestamp_2(struct registers* regs) { return tell_time(2); }
SEC("uprobe/call_timestamp_3")
int call_timestamp_3(struct registers* regs) { return tell_time(3); }
SEC("uprobe/call_timestamp_4")
int call_timestamp_4(struct registers* regs) { return tell_time(4); }
SEC("uprobe/call_timestamp_5")
int call_timestamp_5(struct registers* regs) { return tell_time(5); }

char LICENSE[] SEC("license") = "Dual BSD/GPL";
