/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* What Android's UprobeStats calls Binder: a program for
 * android.os.Binder.execTransactInternal(int, Parcel, Parcel, int, int) that reports the calls of
 * selected AIDL interfaces. Section, maps and record have the names and layouts of AOSP
 * packages/modules/UprobeStats src/bpf_progs/Binder.c, so that
 *
 *     uprobectl load Binder.o --pin DIR --naming uprobestats
 *
 * pins what its task files ask for. `attach --config` fills the table of interfaces. */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "../../src/bpf/programs/registers.h"
#include "../../src/bpf/programs/thread_stack.h"

#define MAX_STRING_LENGTH 128
#define MAX_CODES 10
#define MAX_INTERFACES 5000

struct BinderInterfaceBpfMapKey {
  char interface_descriptor[MAX_STRING_LENGTH];
};

struct BinderCodesBpfMapValue {
  __u64 codes[MAX_CODES]; /* then 0 */
};

struct BinderTransaction {
  char interface_descriptor[MAX_STRING_LENGTH];
  __u64 code;
  __s32 calling_uid;
  __u32 unused;
  __u64 timestamp_ns; /* CLOCK_MONOTONIC */
};

struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, MAX_INTERFACES);
  __type(key, struct BinderInterfaceBpfMapKey);
  __type(value, struct BinderCodesBpfMapValue);
} interfaces SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_RINGBUF);
  __uint(max_entries, 1 << 18);
} output_buf SEC(".maps");

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

/* Offsets in objects of ART (art/runtime/mirror/object.h, string.h): references have 32 bits. */
#define BINDER_DESCRIPTOR 8
#define STRING_COUNT 8 /* length * 2, + 1 if it has two bytes a character */
#define STRING_CHARACTERS 16

/* Reads Binder.mDescriptor. Returns 0 if it cannot be an interface in the table. */
static __always_inline int read_descriptor(__u64 binder, char* into) {
  __u32 string = 0;
  __u32 count = 0;
  if (bpf_probe_read_user(&string, sizeof(string), (void*)(binder + BINDER_DESCRIPTOR)) != 0)
    return 0;
  if (bpf_probe_read_user(&count, sizeof(count), (void*)(__u64)(string + STRING_COUNT)) != 0)
    return 0;
  __u64 length = count >> 1;
  if (count & 1 || length >= MAX_STRING_LENGTH) return 0;
  /* The compiler knows this already, and the verifier does not. */
  asm volatile("%0 &= %1" : "+r"(length) : "i"(MAX_STRING_LENGTH - 1));
  return bpf_probe_read_user(into, length, (void*)(__u64)(string + STRING_CHARACTERS)) == 0;
}

/* The sixth parameter after the ArtMethod. On x86-64 it is on the stack, after the return address,
 * the slot of the ArtMethod and 4 bytes for each parameter before it. */
static __always_inline __s32 calling_uid(struct registers* regs) {
#if defined(TARGET_AARCH64)
  return (__s32)regs->word[ARM64_X0 + 6];
#else
  __s32 uid = -1;
  bpf_probe_read_user(&uid, sizeof(uid), (void*)(STACK_POINTER(regs) + 8 + 8 + 5 * 4));
  return uid;
#endif
}

SEC("uprobe/exec_transact_internal")
int exec_transact_internal(struct registers* regs) {
  stay_on_thread_stack();
  struct BinderInterfaceBpfMapKey key = {};
  if (!read_descriptor(ARGUMENT_1(regs) & 0xffffffff, key.interface_descriptor)) return 0;
  const struct BinderCodesBpfMapValue* selected = bpf_map_lookup_elem(&interfaces, &key);
  if (!selected) return 0;
  const __u64 code = (__u32)ARGUMENT_2(regs);
  for (int i = 0; i < MAX_CODES; ++i) {
    if (selected->codes[i] == 0) return 0;
    if (selected->codes[i] != code) continue;
    struct BinderTransaction* call = bpf_ringbuf_reserve(&output_buf, sizeof(*call), 0);
    if (!call) return count_lost();
    __builtin_memcpy(call->interface_descriptor, key.interface_descriptor,
                     sizeof(key.interface_descriptor));
    call->code = code;
    call->calling_uid = calling_uid(regs);
    call->unused = 0;
    call->timestamp_ns = bpf_ktime_get_ns();
    bpf_ringbuf_submit(call, 0);
    return 0;
  }
  return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
