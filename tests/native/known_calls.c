// SPDX-License-Identifier: Apache-2.0
// The functions and static probes that published BPF objects are for, called a known number of
// times with known arguments:
//
//     known-calls [calls | slow]   "calls": without the network; "slow": rest() sleeps
//
// Prints "ready"; makes the calls after the first byte of stdin and prints "done"; ends with stdin.
// For x86-64, not position-independent; only allocate() allocates.
#define _GNU_SOURCE
#include "sdt.h"

#include <malloc.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define FUNCTION __attribute__((noinline, noclone))
#define KEEP(value) __asm__ volatile("" ::"r"(value) : "memory")

// libbpf-bootstrap: uprobe
FUNCTION int uprobed_add(int a, int b) {
  KEEP(a);
  return a + b;
}
FUNCTION int uprobed_sub(int a, int b) {
  KEEP(a);
  return a - b;
}
// bpftime and bpf-developer-tutorial: uprobe, tailcall_minimal, uprobe_queue, uprobe_stack, bloom
// filter
FUNCTION int target_func(void) {
  KEEP(0);
  return 1;
}
FUNCTION int add_func(int a, int b) {
  KEEP(a);
  return a + b;
}
FUNCTION int target_function(int value) {
  KEEP(value);
  return value + 1;
}
FUNCTION int secondary_function(void) {
  KEEP(0);
  return 2;
}
FUNCTION void user_access(int user) { KEEP(user); }
FUNCTION void admin_operation(int user) { KEEP(user); }
FUNCTION void system_event(void) { KEEP(0); }
FUNCTION int test_file_access(const char* path, int flags) {
  KEEP(path);
  return flags;
}
// bpf-developer-tutorial: btf-uprobe. Members are where no other `struct data` has them.
struct inner_memory_block;
struct data {
  long first;
  int d, e, c, a;
  struct inner_memory_block* inner;
};
FUNCTION int add_test(struct data* data) {
  KEEP(data);
  return data->a + data->e;
}
// bashreadline
FUNCTION const char* readline(const char* prompt) {
  KEEP(prompt);
  return prompt;
}
// funclatency
static int slow;
FUNCTION long rest(long ms) {
  struct timespec time = {ms / 1000, ms % 1000 * 1000000};
  if (slow) nanosleep(&time, NULL);
  return ms;
}
// libbpf-rs
FUNCTION long counted(long value) {
  KEEP(value);
  return value + 1;
}
// sslsniff
FUNCTION int SSL_read(void* ssl, char* buffer, int size) {
  KEEP(ssl);
  memcpy(buffer, "hello", 5);
  return size < 5 ? -1 : 5;
}
FUNCTION int SSL_write(void* ssl, const char* buffer, int size) {
  KEEP(ssl);
  KEEP(buffer);
  return size;
}
FUNCTION int SSL_read_ex(void* ssl, char* buffer, size_t size, size_t* done) {
  KEEP(ssl);
  memset(buffer, 'r', size);
  *done = size;
  return 1;
}
FUNCTION int SSL_write_ex(void* ssl, const char* buffer, size_t size, size_t* done) {
  KEEP(ssl);
  KEEP(buffer);
  *done = size;
  return size < 100;
}
FUNCTION int do_handshake(void* ssl) {
  KEEP(ssl);
  return 1;
}
// cuda_events
FUNCTION int cudaMalloc(void** pointer, size_t size) {
  KEEP(pointer);
  return (int)size % 7;
}
FUNCTION int cudaFree(void* pointer) {
  KEEP(pointer);
  return 0;
}
FUNCTION int cudaMemcpy(void* to, const void* from, size_t size, int kind) {
  KEEP(to);
  KEEP(from);
  KEEP(size);
  return kind;
}
FUNCTION int cudaLaunchKernel(const void* function) {
  KEEP(function);
  return 11;
}
FUNCTION int cudaStreamCreate(void) {
  KEEP(0);
  return 12;
}
FUNCTION int cudaStreamSynchronize(void* stream) {
  KEEP(stream);
  return 13;
}
FUNCTION int cudaGetDevice(void) {
  KEEP(0);
  return 14;
}
FUNCTION int cudaSetDevice(int device) {
  KEEP(device);
  return 15;
}
FUNCTION int cudaEventCreate(void) {
  KEEP(0);
  return 16;
}
FUNCTION int cudaEventRecord(void* event) {
  KEEP(event);
  return 17;
}
FUNCTION int cudaEventSynchronize(void* event) {
  KEEP(event);
  return 18;
}
// Selftests of Linux. The functions of uprobe_multi count their calls in variables that the test
// sets up.
FUNCTION long uprobe_multi_func_1(void) {
  KEEP(0);
  return 1;
}
FUNCTION long uprobe_multi_func_2(void) {
  KEEP(0);
  return 2;
}
FUNCTION long uprobe_multi_func_3(void) {
  KEEP(0);
  return 3;
}
FUNCTION long without_arguments(void) {
  KEEP(0);
  return 4;
}
FUNCTION int autoattach_trigger_func(int a, int b, int c, int d, int e, int f, int g, int h) {
  KEEP(a);
  return a + b + c + d + e + f + g + h;
}
int urandlib_api_sameoffset(void); // liburandom_read.so
const char test_data[] = "test_data";

// goroutine: Go passes arguments in rax, rbx, rcx.
struct goroutine {
  char before[0x98];
  uint64_t id;
};
FUNCTION void casgstatus(struct goroutine* goroutine, int old_state,
                         int state) __asm__("runtime.casgstatus");
FUNCTION void casgstatus(struct goroutine* goroutine, int old_state, int state) {
  KEEP(goroutine);
  KEEP(old_state);
  KEEP(state);
}
static void change_state(uint64_t id, int state) {
  struct goroutine goroutine = {.id = id};
  __asm__ volatile("call runtime.casgstatus"
                   :
                   : "a"(&goroutine), "b"(0), "c"(state)
                   : "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory", "cc");
}

// Allocations: what is outstanding at the end, and what was released.
FUNCTION void keep_small(void) {
  for (int i = 0; i < 5; ++i) KEEP(malloc(100));
}
FUNCTION void release_all(void) {
  for (int i = 0; i < 3; ++i) {
    void* const block = malloc(50);
    KEEP(block);
    free(block);
  }
}
FUNCTION void keep_cleared(void) {
  for (int i = 0; i < 2; ++i) KEEP(calloc(4, 25));
}
FUNCTION void keep_grown(void) {
  void* const block = malloc(200);
  KEEP(block);
  KEEP(realloc(block, 300));
}
FUNCTION void keep_aligned(void) {
  void* block = NULL;
  KEEP(posix_memalign(&block, 64, 1000));
  KEEP(block);
  KEEP(aligned_alloc(64, 128));
  KEEP(memalign(64, 192));
  KEEP(valloc(500));
  KEEP(pvalloc(600));
}
FUNCTION void keep_mapped(void) {
  const int access = PROT_READ | PROT_WRITE, kind = MAP_PRIVATE | MAP_ANONYMOUS;
  KEEP(mmap(NULL, 8192, access, kind, -1, 0));
  munmap(mmap(NULL, 4096, access, kind, -1, 0), 4096);
  KEEP(mremap(mmap(NULL, 4096, access, kind, -1, 0), 4096, 12288, MREMAP_MAYMOVE));
}
FUNCTION void allocate(void) {
  keep_small();
  release_all();
  keep_cleared();
  keep_grown();
  keep_aligned();
  keep_mapped();
}

// Addresses as text, which are looked up nowhere.
FUNCTION void look_up(void) {
  struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM}, *found = NULL;
  for (int i = 0; i < 3; ++i)
    if (getaddrinfo(i == 1 ? "127.0.0.2" : "127.0.0.1", NULL, &hints, &found) == 0)
      freeaddrinfo(found);
  KEEP(getaddrinfo("no number", NULL, &hints, &found));
  KEEP(gethostbyname("127.0.0.3"));
  KEEP(gethostbyname2("127.0.0.4", AF_INET));
}

// One connection to 127.0.0.1, which was looked up, and one to 127.0.0.5, which was not.
FUNCTION int connect_to(uint32_t address, uint16_t port) {
  struct sockaddr_in to = {
      .sin_family = AF_INET, .sin_port = port, .sin_addr.s_addr = htonl(address)};
  const int client = socket(AF_INET, SOCK_STREAM, 0);
  const int result = connect(client, (struct sockaddr*)&to, sizeof to);
  close(client);
  return result;
}
static int connect_twice(void) {
  struct sockaddr_in any = {.sin_family = AF_INET};
  socklen_t size = sizeof any;
  const int server = socket(AF_INET, SOCK_STREAM, 0);
  if (bind(server, (struct sockaddr*)&any, sizeof any) != 0 || listen(server, 8) != 0 ||
      getsockname(server, (struct sockaddr*)&any, &size) != 0)
    return 1;
  const int failed =
      connect_to(INADDR_LOOPBACK, any.sin_port) != 0 || connect_to(0x7f000005, any.sin_port) != 0;
  close(server);
  return failed;
}

FUNCTION void pass_static_probes(void) {
  for (int i = 1; i <= 3; ++i) {
    SDT_PROBE("hotspot", "gc__begin", "0", "");
    SDT_PROBE("hotspot", "gc__end", "0", "");
  }
  for (int i = 1; i <= 2; ++i) {
    SDT_PROBE("hotspot", "mem__pool__gc__begin", "0", "");
    SDT_PROBE("hotspot", "mem__pool__gc__end", "0", "");
  }
  for (int i = 1; i <= 4; ++i) SDT_PROBE("test", "usdt0", "0", "");
  for (long i = 1; i <= 5; ++i)
    SDT_PROBE("test", "usdt3", "0", "-4@%[a] -8@%[b] 8@%[c]", [a] "r"((int)-i), [b] "r"(i << 40),
              [c] "r"(0xfedcba9876543210 + i));
  for (long i = 1; i <= 2; ++i)
    SDT_PROBE("test", "usdt12", "0",
              "-4@$-1 -4@%[a] -8@$-3 -8@%[b] 4@$5 -8@$6 8@%[c] 8@$8 -4@$-9 -2@$10 -2@$-11 -1@$-12",
              [a] "r"((int)i), [b] "r"(-i), [c] "r"(0x8000000000000000 + (uint64_t)i));
  for (int i = 1; i <= 6; ++i)
    SDT_PROBE("victim", "probe", "0", "-4@%[a] -4@$2 -4@%[b]", [a] "r"(i), [b] "r"(i + 2));
  SDT_PROBE("libc", "setjmp", "0", "8@%[a] -4@$1 8@%[b]", [a] "r"(1L << 32), [b] "r"(3L));
}

static const char* const texts[] = {
    "ls -l",
    "a line that is longer than the eighty bytes that the program has for a line of the shell, and so is cut off",
    "/tmp/report", "/etc/shadow", "GET / HTTP/1.1"};

// BPF programs read only memory that is resident.
static void touch(const char* text) {
  while (*(const volatile char*)text) ++text;
}

static void call_all(void) {
  char buffer[8192];
  for (int i = 0; i < 5; ++i) touch(texts[i]);
  for (int i = 1; i <= 3; ++i) uprobed_add(i, 10 * i);
  for (int i = 1; i <= 4; ++i) uprobed_sub(i, 10 * i);
  for (int i = 1; i <= 5; ++i) target_func();
  for (int i = 1; i <= 6; ++i) add_func(i, i);
  for (int i = 1; i <= 7; ++i) {
    target_function(-i);
    if (i % 3 == 0) secondary_function();
  }
  for (int i = 1; i <= 9; ++i) user_access(i % 4);
  for (int i = 1; i <= 3; ++i) admin_operation(i);
  system_event();
  test_file_access(texts[2], 2);
  test_file_access(texts[3], -1);
  struct data data = {.first = 1, .d = 2, .e = 30, .c = 5, .a = 4};
  for (int i = 1; i <= 2; ++i) add_test(&data);
  readline(texts[0]);
  readline(texts[1]);
  readline(NULL);
  for (int i = 0; i < 3; ++i) rest(1100);
  for (int i = 0; i < 2; ++i) rest(300);
  for (long i = 1; i <= 8; ++i) counted(i);
  size_t done = 0;
  SSL_write(NULL, texts[4], 14);
  SSL_read(NULL, buffer, 8192);
  SSL_read(NULL, buffer, 4);
  memcpy(buffer, "once more", 10);
  SSL_write_ex(NULL, buffer, 9, &done);
  SSL_read_ex(NULL, buffer, 8192, &done);
  SSL_write_ex(NULL, buffer, 100, &done);
  do_handshake(NULL);
  cudaMalloc((void**)buffer, 100);
  cudaMalloc((void**)buffer, (size_t)1 << 40);
  cudaMemcpy(buffer, buffer, 4096, 2);
  cudaFree((void*)0x1234);
  cudaLaunchKernel((void*)0x5678);
  cudaStreamCreate();
  cudaStreamSynchronize((void*)0x9abc);
  cudaGetDevice();
  cudaSetDevice(-3);
  cudaEventCreate();
  cudaEventRecord((void*)0xdef0);
  cudaEventSynchronize((void*)0xdef0);
  for (int i = 0; i < 2; ++i) uprobe_multi_func_1();
  for (int i = 0; i < 3; ++i) uprobe_multi_func_2();
  for (int i = 0; i < 4; ++i) uprobe_multi_func_3();
  for (int i = 0; i < 5; ++i) without_arguments();
  for (int i = 0; i < 2; ++i) autoattach_trigger_func(i, 2, 3, 4, 5, 6, 7, 8);
  for (int i = 0; i < 3; ++i) urandlib_api_sameoffset();
  for (uint64_t i = 1; i <= 10; ++i) change_state(i << 33, (int)i % 10);
  allocate();
  pass_static_probes();
}

int main(int argc, char** argv) {
  char byte;
  const int alone = argc > 1 && strcmp(argv[1], "calls") == 0;
  int failed = 0;
  slow = argc > 1 && strcmp(argv[1], "slow") == 0;
  if (write(STDOUT_FILENO, "ready\n", 6) != 6 || read(STDIN_FILENO, &byte, 1) != 1) return 1;
  call_all();
  if (!alone) {
    look_up();
    failed = connect_twice();
  }
  if (write(STDOUT_FILENO, "done\n", 5) != 5) return 1;
  while (read(STDIN_FILENO, &byte, 1) > 0) continue;
  return failed;
}
