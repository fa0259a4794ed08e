// SPDX-License-Identifier: Apache-2.0
// Runs programs of any BPF object with libbpf alone, and prints what they send and collect as
// bytes:
//
//     object-loader OBJECT PID [OPTION…] [PROGRAM=FILE:FUNCTION | PROGRAM=FILE:PROVIDER:NAME…]
//
//     -s MAP=ENTRIES[,VALUE_SIZE]  the size of a map
//     -b MAP:OFFSET=HEX            bytes of a map of global variables, before the object is loaded
//     -d MAP                       prints this map at the end
//     -a                           all programs, where their sections say, for all processes
//
// The section of a program says whether it is for returns or for static probes. Programs that are
// not named are not loaded. Prints JSON Lines: "times" when all are attached, a "record" for each
// record, and after the end of stdin an "entry" for each entry of a map, and "times" of detaching.
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAX_ARGUMENTS = 64 };

struct request {
  const char* sizes[MAX_ARGUMENTS];
  const char* bytes[MAX_ARGUMENTS];
  const char* dumps[MAX_ARGUMENTS];
  char* programs[MAX_ARGUMENTS];
  int size_count, byte_count, dump_count, program_count;
  int all;
  int pid;
};

static void fail(const char* what, const char* name) {
  fprintf(stderr, "object-loader: %s: %s failed: %s\n", name, what, strerror(errno));
  exit(1);
}

static long long now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void print_hex(const void* data, size_t size) {
  const unsigned char* bytes = data;
  putchar('"');
  for (size_t i = 0; i < size; ++i) printf("%02x", bytes[i]);
  putchar('"');
}

static struct bpf_map* find_map(struct bpf_object* object, const char* name, size_t length) {
  struct bpf_map* map;
  bpf_object__for_each_map(map, object) {
    // Names of maps of global variables begin with the name of the object.
    const char* found = bpf_map__name(map);
    if (name[0] == '.' && strchr(found, '.')) found = strchr(found, '.');
    if (strlen(found) == length && strncmp(found, name, length) == 0) return map;
  }
  fail("no such map", name);
  return NULL;
}

static void set_size(struct bpf_object* object, const char* text) {
  const char* const equals = strchr(text, '=');
  if (!equals) fail("MAP=ENTRIES", text);
  struct bpf_map* const map = find_map(object, text, (size_t)(equals - text));
  char* end = NULL;
  bpf_map__set_max_entries(map, (unsigned)strtoul(equals + 1, &end, 0));
  if (*end == ',') bpf_map__set_value_size(map, (unsigned)strtoul(end + 1, NULL, 0));
}

static void set_bytes(struct bpf_object* object, const char* text) {
  const char* const colon = strchr(text, ':');
  if (!colon) fail("MAP:OFFSET=HEX", text);
  struct bpf_map* const map = find_map(object, text, (size_t)(colon - text));
  size_t size = 0;
  const void* const initial = bpf_map__initial_value(map, &size);
  char* hex = NULL;
  size_t offset = strtoul(colon + 1, &hex, 0);
  if (!initial || *hex++ != '=') fail("MAP:OFFSET=HEX", text);
  char* const value = malloc(size);
  if (!value) fail("memory", text);
  memcpy(value, initial, size);
  for (unsigned byte; sscanf(hex, "%2x", &byte) == 1; hex += 2) {
    if (offset >= size) fail("bytes after the variables", text);
    value[offset++] = (char)byte;
  }
  if (bpf_map__set_initial_value(map, value, size) != 0) fail("initial value", text);
  free(value);
}

static int print_ring_record(void* name, void* data, size_t size) {
  printf("{\"type\":\"record\",\"map\":\"%s\",\"bytes\":", (const char*)name);
  print_hex(data, size);
  puts("}");
  return 0;
}

static void print_perf_record(void* name, int cpu, void* data, unsigned size) {
  (void)cpu;
  print_ring_record(name, data, size);
}

static void print_lost(void* name, int cpu, unsigned long long count) {
  printf("{\"type\":\"lost\",\"map\":\"%s\",\"cpu\":%d,\"count\":%llu}\n", (const char*)name, cpu,
         count);
}

static int is_per_cpu(const struct bpf_map* map) {
  switch (bpf_map__type(map)) {
  case BPF_MAP_TYPE_PERCPU_ARRAY:
  case BPF_MAP_TYPE_PERCPU_HASH:
  case BPF_MAP_TYPE_LRU_PERCPU_HASH:
    return 1;
  default:
    return 0;
  }
}

static void print_entry(const struct bpf_map* map, const void* key, const void* value,
                        size_t size) {
  printf("{\"type\":\"entry\",\"map\":\"%s\",\"key\":", bpf_map__name(map));
  print_hex(key, bpf_map__key_size(map));
  fputs(",\"value\":", stdout);
  print_hex(value, size);
  puts("}");
}

static void print_map(const struct bpf_map* map) {
  const int fd = bpf_map__fd(map);
  const size_t key_size = bpf_map__key_size(map);
  size_t size = bpf_map__value_size(map);
  if (is_per_cpu(map)) size = (size + 7) / 8 * 8 * (size_t)libbpf_num_possible_cpus();
  char* const value = calloc(1, size);
  char* const key = calloc(1, key_size + 1);
  char* const next = calloc(1, key_size + 1);
  if (!value || !key || !next) fail("memory", bpf_map__name(map));
  if (key_size == 0) {
    while (bpf_map_lookup_and_delete_elem(fd, NULL, value) == 0) print_entry(map, key, value, size);
  } else {
    for (int first = 1; bpf_map_get_next_key(fd, first ? NULL : key, next) == 0; first = 0) {
      memcpy(key, next, key_size);
      if (bpf_map_lookup_elem(fd, key, value) == 0) print_entry(map, key, value, size);
    }
  }
  free(next);
  free(key);
  free(value);
}

static void parse(struct request* request, int argc, char** argv) {
  int option;
  while ((option = getopt(argc, argv, "s:b:d:a")) != -1) {
    if (option == 's' && request->size_count < MAX_ARGUMENTS)
      request->sizes[request->size_count++] = optarg;
    else if (option == 'b' && request->byte_count < MAX_ARGUMENTS)
      request->bytes[request->byte_count++] = optarg;
    else if (option == 'd' && request->dump_count < MAX_ARGUMENTS)
      request->dumps[request->dump_count++] = optarg;
    else if (option == 'a')
      request->all = 1;
    else
      exit(2);
  }
  for (; optind < argc && request->program_count < MAX_ARGUMENTS; ++optind)
    request->programs[request->program_count++] = argv[optind];
}

// PROGRAM=FILE:FUNCTION, or PROGRAM=FILE:PROVIDER:NAME.
static struct bpf_link* attach(struct bpf_object* object, const char* text, int pid) {
  char words[4096];
  if (strlen(text) >= sizeof words) fail("length", text);
  strcpy(words, text);
  char* const file = strchr(words, '=');
  char* const function = file ? strchr(file, ':') : NULL;
  if (!function) fail("PROGRAM=FILE:FUNCTION", text);
  *file = *function = '\0';
  struct bpf_program* const program = bpf_object__find_program_by_name(object, words);
  if (!program) fail("no such program", words);
  const char* const section = bpf_program__section_name(program);
  if (strncmp(section, "usdt", 4) == 0) {
    char* const name = strchr(function + 1, ':');
    if (!name) fail("PROGRAM=FILE:PROVIDER:NAME", text);
    *name = '\0';
    return bpf_program__attach_usdt(program, pid, file + 1, function + 1, name + 1, NULL);
  }
  LIBBPF_OPTS(bpf_uprobe_opts, options, .func_name = function + 1,
              .retprobe =
                  strncmp(section, "uretprobe", 9) == 0 || strncmp(section, "kretprobe", 9) == 0);
  return bpf_program__attach_uprobe_opts(program, pid, file + 1, 0, &options);
}

int main(int argc, char** argv) {
  struct request request = {.pid = argc > 2 ? atoi(argv[2]) : 0};
  if (argc < 3) return 2;
  parse(&request, argc - 2, argv + 2);
  const long long begin = now_ns();
  struct bpf_object* const object = bpf_object__open(argv[1]);
  if (!object) fail("open", argv[1]);
  struct bpf_program* program;
  size_t programs = 0;
  bpf_object__for_each_program(program, object) {
    ++programs;
    int named = request.all;
    const char* const name = bpf_program__name(program);
    for (int i = 0; i < request.program_count; ++i)
      named |= strncmp(request.programs[i], name, strlen(name)) == 0 &&
               request.programs[i][strlen(name)] == '=';
    bpf_program__set_autoload(program, named);
  }
  for (int i = 0; i < request.size_count; ++i) set_size(object, request.sizes[i]);
  for (int i = 0; i < request.byte_count; ++i) set_bytes(object, request.bytes[i]);
  if (bpf_object__load(object) != 0) fail("load", argv[1]);
  const long long loaded = now_ns();

  struct bpf_link** const links =
      calloc(programs + (size_t)request.program_count, sizeof(struct bpf_link*));
  if (!links) fail("memory", argv[1]);
  size_t link_count = 0;
  for (int i = 0; i < request.program_count; ++i)
    if (!(links[link_count++] = attach(object, request.programs[i], request.pid)))
      fail("attach", request.programs[i]);
  if (request.all)
    bpf_object__for_each_program(program,
                                 object) if (!(links[link_count++] = bpf_program__attach(program)))
        fail("attach", bpf_program__name(program));
  const long long attached = now_ns();

  struct ring_buffer* rings = NULL;
  struct perf_buffer* perf_buffers[MAX_ARGUMENTS];
  int perf_buffer_count = 0;
  struct bpf_map* map;
  bpf_object__for_each_map(map, object) {
    char* const name = (char*)bpf_map__name(map);
    if (bpf_map__type(map) == BPF_MAP_TYPE_RINGBUF) {
      if (!rings)
        rings = ring_buffer__new(bpf_map__fd(map), print_ring_record, name, NULL);
      else if (ring_buffer__add(rings, bpf_map__fd(map), print_ring_record, name) != 0)
        fail("ring buffer", name);
      if (!rings) fail("ring buffer", name);
    } else if (bpf_map__type(map) == BPF_MAP_TYPE_PERF_EVENT_ARRAY) {
      if (perf_buffer_count == MAX_ARGUMENTS) fail("number of buffers", name);
      perf_buffers[perf_buffer_count] =
          perf_buffer__new(bpf_map__fd(map), 64, print_perf_record, print_lost, name, NULL);
      if (!perf_buffers[perf_buffer_count++]) fail("perf buffer", name);
    }
  }
  printf("{\"type\":\"times\",\"load_ns\":%lld,\"attach_ns\":%lld}\n", loaded - begin,
         attached - loaded);
  fflush(stdout);

  for (int ended = 0; !ended;) {
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    char byte;
    ended = poll(&input, 1, 20) > 0 && read(STDIN_FILENO, &byte, 1) <= 0;
    if (rings) ring_buffer__consume(rings);
    for (int i = 0; i < perf_buffer_count; ++i) perf_buffer__consume(perf_buffers[i]);
  }
  const long long detaching = now_ns();
  for (size_t i = 0; i < link_count; ++i) bpf_link__destroy(links[i]);
  const long long detached = now_ns();
  for (int i = 0; i < request.dump_count; ++i)
    print_map(find_map(object, request.dumps[i], strlen(request.dumps[i])));
  printf("{\"type\":\"times\",\"detach_ns\":%lld}\n", detached - detaching);
  ring_buffer__free(rings);
  for (int i = 0; i < perf_buffer_count; ++i) perf_buffer__free(perf_buffers[i]);
  bpf_object__close(object);
  free(links);
  return 0;
}
