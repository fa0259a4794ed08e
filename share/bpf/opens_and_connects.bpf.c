/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* Files that a process opens and addresses that it connects to, each with its user stack: which
 * code path has opened that file, which library has connected there?
 *
 *   clang -target bpf -O2 -g -c opens_and_connects.bpf.c -o opens_and_connects.bpf.o
 *   uprobectl attach --object opens_and_connects.bpf.o --set process=4711 --stack -d 30s
 *
 * Nothing in here is about stacks: they come with whatever is sent through a perf event array, at
 * --stack, or where its name ends in "_with_stack". One source for all architectures; needs
 * libbpf's headers and those of Linux. */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

const volatile __u32 process = 0; /* --set process=4711: only this one */
const volatile __u32 user = ~0U;  /* --set user=10123: only the app with this uid */

struct event {
  char call[8]; /* "open", "connect" */
  char comm[16];
  char target[216]; /* a path, or an address */
  __u32 port;
};
/* Without a mention outside of functions clang leaves a type out of what it tells of types. */
const struct event* unused __attribute__((unused));

struct {
  __uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
  __uint(key_size, sizeof(__u32));
  __uint(value_size, sizeof(__u32));
} events_with_stack SEC(".maps");

/* What the tracepoints syscalls:sys_enter_* hand over. */
struct system_call {
  __u64 common;
  long number;
  unsigned long arguments[6];
};

static __always_inline int is_wanted(void) {
  if (process != 0 && process != bpf_get_current_pid_tgid() >> 32) return 0;
  return user == ~0U || user == (__u32)bpf_get_current_uid_gid();
}

static __always_inline int send(struct system_call* context, struct event* event) {
  bpf_get_current_comm(event->comm, sizeof(event->comm));
  bpf_perf_event_output(context, &events_with_stack, BPF_F_CURRENT_CPU, event, sizeof(*event));
  return 0;
}

SEC("tracepoint/syscalls/sys_enter_openat")
int opens(struct system_call* context) {
  if (!is_wanted()) return 0;
  struct event event = {.call = "open"};
  bpf_probe_read_user_str(event.target, sizeof(event.target), (const void*)context->arguments[1]);
  return send(context, &event);
}

#define FAMILY_UNIX 1
#define FAMILY_INTERNET 2
#define FAMILY_INTERNET_6 10

/* The positions in `text` are known to the verifier because the loops are unrolled: groups have
 * fixed widths. */
static __always_inline void write_decimal(char* text, __u8 number) {
  text[0] = '0' + number / 100;
  text[1] = '0' + number / 10 % 10;
  text[2] = '0' + number % 10;
}

static __always_inline void write_ipv4(char* text, const __u8* address) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    write_decimal(text + 4 * i, address[i]);
    text[4 * i + 3] = i < 3 ? '.' : 0;
  }
}

static __always_inline void write_ipv6(char* text, const __u8* address) {
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    const __u8 digits[2] = {address[i] >> 4, address[i] & 15};
    char* const at = text + 2 * i + i / 2; /* a colon before each group but the first */
    if (i % 2 == 0 && i > 0) at[-1] = ':';
    at[0] = digits[0] < 10 ? '0' + digits[0] : 'a' + digits[0] - 10;
    at[1] = digits[1] < 10 ? '0' + digits[1] : 'a' + digits[1] - 10;
  }
}

/* The top byte of an address may be a tag on arm64, as Android's allocator sets it. The kernel
 * drops it in system calls, but bpf_probe_read_user() rejects it. */
static __always_inline long read(void* into, __u32 size, __u64 from) {
  long error = bpf_probe_read_user(into, size, (const void*)from);
  if (error) error = bpf_probe_read_user(into, size, (const void*)(from << 8 >> 8));
  return error;
}

SEC("tracepoint/syscalls/sys_enter_connect")
int connects(struct system_call* context) {
  if (!is_wanted()) return 0;
  const __u64 address = context->arguments[1];
  /* struct sockaddr_in, sockaddr_in6: family, port in network order, then 4 bytes of the address or
   * 4 of the flow and 16 of the address. */
  struct {
    __u16 family;
    __u8 port[2];
    __u8 first[4];
    __u8 rest[16];
  } head = {};
  struct event event = {.call = "connect"};
  if (read(&head.family, sizeof(head.family), address) != 0) return 0;
  if (head.family == FAMILY_UNIX) {
    bpf_probe_read_user_str(event.target, 108, (const void*)(address + sizeof(head.family)));
  } else if (head.family == FAMILY_INTERNET) {
    read(&head, 8, address);
    write_ipv4(event.target, head.first);
  } else if (head.family == FAMILY_INTERNET_6) {
    read(&head, sizeof(head), address);
    write_ipv6(event.target, head.rest);
  } else {
    return 0;
  }
  event.port = head.port[0] << 8 | head.port[1];
  return send(context, &event);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
