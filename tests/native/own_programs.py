#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""own_programs.py UPROBECTL CLANG
Programs of users in BPF objects, compiled here: the types of their records, maps of several objects, maps that are
emptied, and programs that nobody runs. Needs root. Prints TAP."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from tap import Tap

UPROBECTL, CLANG = str(Path(sys.argv[1]).resolve()), sys.argv[2]
TAP = Tap()

PROGRAM = r"""
#include <stdlib.h>
#include "sdt.h"
__attribute__((noipa)) long work(long a) { return a + 1; }
__attribute__((noipa)) int other(int a) { return -a; }
int main(int count, char** words) {
  int calls = count > 1 ? atoi(words[1]) : 1;
  for (int i = 0; i < calls; ++i) {
    work(i);
    other(i);
    SDT_PROBE("app", "at", "0", "-4@%k0", "r"(i));
  }
  return 0;
}
"""
HEAD = r"""
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
typedef __u32 u32;
typedef __u64 u64;
#define RING(name) struct { __uint(type, BPF_MAP_TYPE_RINGBUF); __uint(max_entries, 4096); } name SEC(".maps")
#define MAP(name, kind, size, k, v) \
  struct { __uint(type, kind); __uint(max_entries, size); __type(key, k); __type(value, v); } name SEC(".maps")
#define AT_WORK SEC("uprobe//proc/self/exe:work")
#define AT_OTHER SEC("uprobe//proc/self/exe:other")
char LICENSE[] SEC("license") = "GPL";
"""
OBJECTS = {
    # Records of 72, 24 and 72 bytes in one ring buffer.
    "mixed": r"""
struct event { u32 type; u32 pid; char path[64]; };
struct exit_event { u32 type; int rc; u64 duration; u32 parent; u32 pad; };
struct fork_event { u32 type; u32 child; u64 cookie; char tag[56]; };
RING(events);
AT_WORK int begin(void* context) {
  struct event* e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);
  if (!e) return 0;
  __builtin_memset(e, 0, sizeof(*e));
  e->type = 1;
  bpf_ringbuf_submit(e, 0);
  return 0;
}
AT_OTHER int end(void* context) {
  struct exit_event* e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);
  if (!e) return 0;
  *e = (struct exit_event){.type = 2, .rc = -22, .duration = 123456789, .parent = 77};
  bpf_ringbuf_submit(e, 0);
  struct fork_event* f = bpf_ringbuf_reserve(&events, sizeof(*f), 0);
  if (!f) return 0;
  __builtin_memset(f, 0, sizeof(*f));
  f->type = 3;
  f->child = 99;
  f->cookie = 5;
  bpf_ringbuf_submit(f, 0);
  return 0;
}""",
    # A number, as long as the key of a map.
    "number": r"""
struct key { u32 group; u32 cpu; };
MAP(seen, BPF_MAP_TYPE_HASH, 64, struct key, u64);
RING(times);
AT_WORK int tell(void* context) {
  struct key k = {.group = bpf_get_current_pid_tgid() >> 32, .cpu = bpf_get_smp_processor_id()};
  u64 ns = 5000000000ULL;
  bpf_map_update_elem(&seen, &k, &ns, 0);
  bpf_ringbuf_output(&times, &ns, 8, 0);
  return 0;
}""",
    # The value of a map, as bcc's tools send it, beside one of another map that begins with an array.
    "kept": r"""
struct spec { char args[288]; u64 cookie; };
struct span { u32 cpu; u32 pid; u64 begin; };
MAP(specs, BPF_MAP_TYPE_HASH, 64, u32, struct spec);
MAP(spans, BPF_MAP_TYPE_HASH, 64, u32, struct span);
struct { __uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY); __uint(key_size, 4); __uint(value_size, 4); } ended SEC(".maps");
AT_WORK int tell(void* context) {
  u32 key = 0;
  struct span made = {.cpu = 3, .pid = 5, .begin = 7};
  struct spec* found = bpf_map_lookup_elem(&specs, &key);
  if (found) made.cpu = found->args[0];
  bpf_map_update_elem(&spans, &key, &made, 0);
  struct span* kept = bpf_map_lookup_elem(&spans, &key);
  if (kept) bpf_perf_event_output(context, &ended, BPF_F_CURRENT_CPU, kept, sizeof(*kept));
  return 0;
}""",
    # 20 bytes: both structures may have them.
    "open_end": r"""
struct flex { u32 type; u32 n; u32 vals[]; };
struct nest { u32 type; struct flex f; };
RING(parts);
struct { __uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY); __uint(key_size, 4); __uint(value_size, 4); } padded SEC(".maps");
AT_WORK int tell(void* context) {
  char* p = bpf_ringbuf_reserve(&parts, 20, 0);
  if (!p) return 0;
  struct nest* n = (void*)p;
  n->type = 3;
  n->f.type = 4;
  n->f.n = 2;
  n->f.vals[0] = 7;
  n->f.vals[1] = 8;
  bpf_ringbuf_submit(p, 0);
  char buffer[32] = {};
  struct flex* f = (void*)buffer;
  f->type = 9;
  bpf_perf_event_output(context, &padded, BPF_F_CURRENT_CPU, buffer, 16);
  return 0;
}""",
    # Compiled twice.
    "counter": r"""
MAP(counts, BPF_MAP_TYPE_HASH, 100, u32, u64);
u64 total;
RING(sent);
AT_WORK int count(void* context) {
  u32 k = 1;
  u64 v = STEP, *p = bpf_map_lookup_elem(&counts, &k);
  if (p) *p += STEP; else bpf_map_update_elem(&counts, &k, &v, 0);
  total += STEP;
  bpf_ringbuf_output(&sent, &v, 8, 0);
  return 0;
}""",
    "emptied": r"""
MAP(hash, BPF_MAP_TYPE_HASH, 4096, u32, u64);
struct inner { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, 5); __type(key, u32); __type(value, u64); };
struct inner first SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS); __uint(max_entries, 1); __type(key, u32);
         __array(values, struct inner); } outer SEC(".maps") = {.values = {&first}};
static __always_inline void add(void* map, u32 k) {
  u64 v = 1, *p = bpf_map_lookup_elem(map, &k);
  if (p) __sync_fetch_and_add(p, 1); else bpf_map_update_elem(map, &k, &v, 0);
}
AT_WORK int count(void* context) {
  static u32 number;
  u32 zero = 0;
  add(&hash, number++ & 63);
  void* map = bpf_map_lookup_elem(&outer, &zero);
  if (map) add(map, 0);
  return 0;
}""",
    # Neither this nor the next one is attached.
    "struct_ops": r"""
struct sock;
struct tcp_congestion_ops { u32 (*ssthresh)(struct sock*); u32 (*undo_cwnd)(struct sock*);
                            void (*cong_avoid)(struct sock*, u32, u32); char name[16]; };
u64 hits;
SEC("struct_ops/ssthresh") u32 ssthresh(u64* context) { return 2; }
SEC("struct_ops/undo_cwnd") u32 undo(u64* context) { return 2; }
SEC("struct_ops/cong_avoid") void avoid(u64* context) {}
SEC(".struct_ops") struct tcp_congestion_ops none = {.ssthresh = (void*)ssthresh, .undo_cwnd = (void*)undo,
                                                     .cong_avoid = (void*)avoid, .name = "none"};
AT_WORK int count(void* context) { ++hits; return 0; }
SEC("?uprobe") int any(void* context) { ++hits; return 0; }""",
    "iterator": r"""
u64 hits;
SEC("iter/task") int each(void* context) { return 0; }
AT_WORK int count(void* context) { ++hits; return 0; }""",
    "flags": r"""
enum mode { F1 = 1, F2 = 2, F4 = 4 };
volatile enum mode mode = F2;
u64 hits;
SEC("uretprobe//proc/self/exe:work") int at_end(void* context) { hits += mode; return bpf_get_func_ip(context) == 0; }""",
    "arena": r"""
struct { __uint(type, 33); __uint(map_flags, BPF_F_MMAPABLE); __uint(max_entries, 10); } arena SEC(".maps"); // ARENA
int __attribute__((address_space(1))) x;
AT_WORK int count(void* context) { ++x; return 0; }""",
    "three": r"""
u64 hits;
AT_WORK int one(void* context) { ++hits; return 0; }
AT_OTHER int two(void* context) { ++hits; return 0; }
SEC("usdt//proc/self/exe:app:at") int three(void* context) { ++hits; return 0; }""",
}


def compile_object(folder, name, file=None, *options):
    source = folder / f"{name}.bpf.c"
    source.write_text(HEAD + OBJECTS[name])
    made = folder / f"{file or name}.bpf.o"
    subprocess.run([CLANG, "-target", "bpf", "-mcpu=v3", "-O2", "-g", f"-I/usr/include/{os.uname().machine}-linux-gnu", *options,
                    "-c", "-o", made, source], check=True)
    return made.name


def attach(folder, *words, calls=1):
    """The records of a run, and what it has said."""
    done = subprocess.run([UPROBECTL, "attach", "-j", "-d", "5s", *words, "--", "./app", str(calls)], capture_output=True,
                          text=True, timeout=60, cwd=folder)
    if done.returncode != 0:
        return [], f"status {done.returncode}: {done.stderr}"
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def sent(records, of="record_type"):
    return [each[of] for each in records if each["type"] == "event"]


def entries(records):
    """The last value of each map, or global variable."""
    return {each["map"]: each["value"] for each in records if each["type"] == "map_entry"}


def check_records(folder):
    mixed = compile_object(folder, "mixed")
    records, said = attach(folder, "--object", mixed)
    TAP.check("a record has the type of exactly its size, also if another one has the map's name", [] if
              sent(records) == ["event", "exit_event", "event"] and sent(records, "record")[1] ==
              {"type": 2, "rc": -22, "duration": 123456789, "parent": 77, "pad": 0} else [records, said])
    TAP.check("if another type has the size of the named one, a warning says so", [] if
              said.count("records of 72 bytes of map 'events' are shown as event, but may also be fork_event") == 1 else [said])
    records, said = attach(folder, "--object", mixed, "--record", "events=fork_event", "--record", "events=exit_event")
    TAP.check("of several --record each record has that of its size", [] if
              sent(records) == ["fork_event", "exit_event", "fork_event"] and "may also" not in said else [records, said])

    records, said = attach(folder, "--object", compile_object(folder, "number"))
    TAP.check("the key of a map does not tell the type of a record", [] if sent(records) == [None] and
              sent(records, "raw") == ["00f2052a01000000"] and "structures of this size: key" in said else [records, said])

    records, said = attach(folder, "--object", compile_object(folder, "kept"), "--map", "ended")
    TAP.check("a record is the value of a map if that alone has its size", [] if sent(records) == ["span"] and
              sent(records, "record") == [{"cpu": 3, "pid": 5, "begin": 7}] else [records, said])

    made = compile_object(folder, "open_end")
    records, said = attach(folder, "--object", made, "--map", "parts")
    TAP.check("a record that two structures with flexible arrays may have is not guessed", [] if sent(records) == [None] and
              "structures of this size: nest, flex" in said else [records, said])
    records, said = attach(folder, "--object", made, "--map", "parts", "--record", "nest")
    TAP.check("a flexible array in the last member has the rest of the record", [] if
              sent(records, "record") == [{"type": 3, "f": {"type": 4, "n": 2, "vals": [7, 8]}}] else [records, said])
    records, said = attach(folder, "--object", made, "--map", "padded", "--record", "flex")
    TAP.check("a warning says that elements may be padding", [] if
              said.count("up to 7 bytes of padding") == 1 else [records, said])


def check_maps(folder):
    objects = [word for step in (1, 100) for word in
               ("--object", compile_object(folder, "counter", f"step{step}", f"-DSTEP={step}"))]
    records, said = attach(folder, *objects, "--map", "counts", calls=4)
    TAP.check("--map prints the maps of that name of all objects", [] if
              entries(records) == {"step1.bpf.o:counts": 4, "step100.bpf.o:counts": 400} else [records, said])
    records, said = attach(folder, *objects, "--map", "total", calls=4)
    TAP.check("and the variables", [] if entries(records) == {"step1.bss": 4, "step100.bss": 400} else [records, said])
    records, said = attach(folder, *objects, "--map", "sent", calls=4)
    TAP.check("and reads the buffers", [] if len(sent(records)) == 8 else [records, said])

    # A program that has looked an entry up just before it is removed still adds to it.
    calls = 15000
    records, said = attach(folder, "--object", compile_object(folder, "emptied"), "--map", "hash", "--map", "outer", "--clear",
                           "--interval", "10ms", calls=calls)
    total = sum(each["value"] for each in records if each["type"] == "map_entry" and each["map"] == "hash")
    TAP.check("what is added to a hash while it is emptied is not lost", [] if calls * 0.999 <= total <= calls or "is lost" in said else [total, said])
    TAP.check("inner maps are not emptied", [] if entries(records).get("outer[0]") == calls and
              "map 'outer': maps of maps are not emptied" in said else [entries(records), said])


def check_programs(folder):
    if Path("/sys/kernel/btf/vmlinux").exists():
        records, said = attach(folder, "--object", compile_object(folder, "struct_ops"), "--map", "hits", calls=3)
        TAP.check("an object with a struct_ops map is attached", [] if list(entries(records).values()) == [3] else [records, said])
        records, said = attach(folder, "--object", "struct_ops.bpf.o", "--map", "hits", "--program-name", "any", "./app", "work",
                               "other", calls=3)
        TAP.check("also at several functions", [] if list(entries(records).values()) == [6] and
                  sorted(each["hits"] for each in records if each["type"] == "probe") == [3, 3] else [records, said])
        records, said = attach(folder, "--object", compile_object(folder, "iterator"))
        TAP.check("a program of an iterator is skipped", [] if "program 'each' (iter/task) is skipped" in said else [said])
    else:
        TAP.skip("programs that are not attached", "no types of the kernel")
    said = attach(folder, "--object", compile_object(folder, "arena"))[1]
    TAP.check("variables in an arena are refused", [] if "arena.bpf.o: global variables in an arena" in said else [said])
    flags = compile_object(folder, "flags")
    records, said = attach(folder, "--object", flags, "--set", "mode=F1|F4", "--map", "mode", "--return-at", "ret")
    TAP.check("--set takes flags as they are shown", [] if list(entries(records).values()) == ["F1|F4"] else [records, said])
    TAP.check("a warning says that bpf_get_func_ip() returns the address of an exit", [] if
              "program 'at_end' runs at exits, where bpf_get_func_ip()" in said else [said])
    records, said = attach(folder, "--object", flags, "--set", "mode=F1|F8")
    TAP.check("an unknown flag is an error", [] if not records and "invalid value 'F1|F8'" in said else [records, said])
    records, said = attach(folder, "--object", compile_object(folder, "three"), "--map", "hits")
    TAP.check("functions are not counted as static probes", [] if
              "probing 1 static probe at 1 probe point and 2 functions" in said else [said])


def main():
    if os.geteuid() != 0 or not shutil.which("gcc"):
        TAP.skip("programs of users", "not root" if os.geteuid() != 0 else "no program 'gcc'")
        return TAP.done()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "app.c").write_text(PROGRAM)
        subprocess.run(["gcc", "-O1", "-g", f"-I{ROOT / 'fixtures/workload'}", "-o", folder / "app", folder / "app.c"], check=True)
        check_records(folder)
        check_maps(folder)
        check_programs(folder)
    TAP.done()


main()
