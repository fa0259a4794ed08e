#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""public_object_counts.py UPROBECTL KNOWN_CALLS
Each published BPF object of the corpus, whole: hits of each of its programs, records and values of maps are those of
the calls that known_calls.c makes; an object that Linux cannot run is refused with the reason. Needs root. Prints TAP."""

import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import public_objects as objects
from tap import Tap

# Where programs of uprobe.o have `struct data`, and the registers of the machine.
TYPES = """
struct inner_memory_block;
struct data { long first; int d, e, c, a; struct inner_memory_block *inner; };
struct deep_memory_block { int a; char b[10]; };
struct inner_memory_block { int a; char b[10]; struct deep_memory_block *deep; };
struct pt_regs {
  unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
};
int use(struct data *data, struct inner_memory_block *inner, struct deep_memory_block *deep, struct pt_regs *regs) {
  return data->a + inner->a + deep->a + (int)regs->di;
}
"""
ALLOCATORS = ["malloc", "calloc", "realloc", "mmap", "posix_memalign", "aligned_alloc", "memalign", "valloc", "pvalloc"]
CUDA = {"malloc": "cudaMalloc", "free": "cudaFree", "memcpy": "cudaMemcpy", "launch_kernel": "cudaLaunchKernel",
        "stream_create": "cudaStreamCreate", "stream_sync": "cudaStreamSynchronize", "get_device": "cudaGetDevice",
        "set_device": "cudaSetDevice", "event_create": "cudaEventCreate", "event_record": "cudaEventRecord",
        "event_sync": "cudaEventSynchronize"}
SSL = {"SSL_read": 2, "SSL_write": 1}


class Row(NamedTuple):
    """hits: "PROGRAM FUNCTION" and their number; records: of each map; maps: the values of some, by key or variable.
    In words, &NAME is the address of a function or variable of the program."""
    file: str
    words: str
    hits: dict = {}
    records: dict = {}
    maps: dict = {}
    program: str = "known"
    refused: str = None
    needs: str = None  # what `doctor` calls it


def named(pairs):
    return " ".join(f"--program-name {program}={function}" for program, function in pairs)


def memleak(*extra):
    allocators = ALLOCATORS + list(extra)
    pairs = [(f"{name}_{end}", name) for name in allocators for end in ("enter", "exit")]
    return named([*pairs, ("free_enter", "free"), ("munmap_enter", "munmap")])


def memleak_hits(*extra):
    """aligned_alloc and memalign are one function of glibc."""
    calls = {"malloc": 9, "calloc": 2, "realloc": 1, "mmap": 3, "posix_memalign": 1, "aligned_alloc": 2, "valloc": 1,
             "pvalloc": 1, **{name: 1 for name in extra}}
    hits = {f"{name}_{end} {name}": count for name, count in calls.items() for end in ("enter", "exit")}
    return {**hits, "memalign_enter aligned_alloc": 2, "memalign_exit aligned_alloc": 2, "free_enter free": 3,
            "munmap_enter munmap": 1}


def both(entry, exit_, functions):
    return {f"{program} {function}": count for function, count in functions.items() for program in (entry, exit_)}


def cuda_hits():
    return {f"cuda_{name}_{end} {function}": 2 if name == "malloc" else 1
            for name, function in CUDA.items() for end in ("enter", "exit")}


GC = named((program, f"./known:hotspot:{name}") for program, name in (
    ("handle_gc_start", "gc__begin"), ("handle_gc_end", "gc__end"),
    ("handle_mem_pool_gc_start", "mem__pool__gc__begin"), ("handle_mem_pool_gc_end", "mem__pool__gc__end")))
GC_HITS = {"handle_gc_start hotspot:gc__begin": 3, "handle_gc_end hotspot:gc__end": 3,
           "handle_mem_pool_gc_start hotspot:mem__pool__gc__begin": 2,
           "handle_mem_pool_gc_end hotspot:mem__pool__gc__end": 2}
REST = "--program-name dummy_kprobe --program-name dummy_kretprobe ./known rest"
REST_HITS = {"dummy_kprobe rest": 5, "dummy_kretprobe rest": 5}
SNIFF = named([("probe_SSL_rw_enter", "SSL_read"), ("probe_SSL_rw_enter", "SSL_write"), ("probe_SSL_read_exit", "SSL_read"),
               ("probe_SSL_write_exit", "SSL_write"), ("probe_SSL_do_handshake_enter", "do_handshake"),
               ("probe_SSL_do_handshake_exit", "do_handshake")])
SNIFF_HITS = {"probe_SSL_rw_enter SSL_read": 2, "probe_SSL_rw_enter SSL_write": 1, "probe_SSL_read_exit SSL_read": 2,
              "probe_SSL_write_exit SSL_write": 1, "probe_SSL_do_handshake_enter do_handshake": 1,
              "probe_SSL_do_handshake_exit do_handshake": 1}
SNIFF_EX = named([(f"probe_{function}_ex_{end}", f"{function}_ex") for function in SSL for end in ("enter", "exit")])
SNIFF_EX_HITS = {**both("probe_SSL_write_ex_enter", "probe_SSL_write_ex_exit", {"SSL_write_ex": 2}),
                 **both("probe_SSL_read_ex_enter", "probe_SSL_read_ex_exit", {"SSL_read_ex": 1})}
RESOLVED = {"getaddrinfo": 4, "gethostbyname": 1, "gethostbyname2": 1}
MULTI = {"uprobe_multi_func_1": 2, "uprobe_multi_func_2": 3, "uprobe_multi_func_3": 4}
TARGETS = {"target_function_entry target_function": 7, "secondary_function_entry secondary_function": 2}
ADDRESSES = "--set user_ptr=&test_data " + " ".join(f"--set {name}_addr=&{name}" for name in MULTI)
OVERRIDE = "it calls bpf_override_return(), which only works at functions of the kernel"
ADD_TEST = "./examples/btf-base add_test --btf types"

ROWS = [
    Row("bcc_bashreadline", "./bash", {"printret readline": 3}, {"events": 2}, program="bash"),
    Row("bcc_funclatency", f"--map .bss {REST}", REST_HITS),
    Row("bcc_gethostlatency", "libc.so.6 getaddrinfo gethostbyname gethostbyname2",
        both("handle_entry", "handle_return", RESOLVED), {"events": 6}),
    Row("bcc_javagc", f"usdt attach {GC} ./known", GC_HITS, {"perf_map": 5}),
    Row("bcc_memleak", f"--set stack_flags=256 {memleak('mremap')} libc.so.6", memleak_hits("mremap"), program="known calls"),
    # Its two others are for connections; a kernel without kprobes cannot attach them.
    Row("boot_tracecon", "--set target_pid=%pid libc.so.6",
        both("getaddrinfo_enter", "getaddrinfo_exit", {"getaddrinfo": 4}),
        {"events": 2} if Path("/sys/bus/event_source/devices/kprobe").exists() else {}),
    Row("boot_uprobe", "./known uprobed_add", {**both("uprobe_add", "uretprobe_add", {"uprobed_add": 3}),
                                               **both("uprobe_sub", "uretprobe_sub", {"uprobed_sub": 4})}),
    Row("boot_usdt", "usdt attach --set my_pid=%pid " + named((program, "./known:libc:setjmp")
                                                            for program in ("usdt_auto_attach", "usdt_manual_attach")) + " ./known",
        {"usdt_auto_attach libc:setjmp": 1, "usdt_manual_attach libc:setjmp": 1}),
    Row("bpftime_error_inject", "./known counted", refused=OVERRIDE),
    Row("bpftime_file_access_filter", "--map events_queue --map call_counter --fill allowed_paths {prefixlen=40,data=/tmp/}=1",
        {"uprobe_test_file_access test_file_access": 2}, maps={"call_counter": {0: 2}}, program="file_access_target"),
    Row("bpftime_funclatency", f"--map .bss {REST}", REST_HITS),
    Row("bpftime_get_stack_id_example", "", {"malloc_enter malloc": 9, "free_enter free": 3}, {"rb": 12}, program="known calls"),
    Row("bpftime_goroutine", "", {"uprobe_runtime_casgstatus runtime.casgstatus": 10}, {"rb": 10}, program="go-server-http/main"),
    Row("bpftime_launchlate", "./known counted", refused="map 'time_histogram' has type 1503, which is not a type of Linux"),
    Row("bpftime_malloc", "--map libc_malloc_calls_total", {"do_count malloc": 9},
        maps={"libc_malloc_calls_total": {"pid": 9}}, program="known calls"),
    Row("bpftime_readline", "./bash readline", {"printret readline": 3}, {"events": 2}, program="bash"),
    Row("bpftime_sslsniff", f"{SNIFF} ./known", SNIFF_HITS, {"perf_SSL_events": 3}),
    Row("bpftime_tailcall_minimal", "", {"test_func add_func": 6}, program="victim"),
    Row("bpftime_uprobe-override", "./known counted", refused=OVERRIDE),
    Row("bpftime_uprobe", "", {"do_uprobe_trace target_func": 5}, program="victim"),
    Row("bpftime_uprobe_bloom_filter", "", program="target", refused="rejected by the kernel's verifier"),
    Row("bpftime_uprobe_queue", "--map call_counter --map events_queue", TARGETS, maps={"call_counter": {0: 9}}, program="target"),
    Row("bpftime_uprobe_stack", "--map call_counter --map events_stack", TARGETS, maps={"call_counter": {0: 9}}, program="target"),
    Row("bpftime_usdt_minimal", "usdt attach ./known victim:probe", {"simple_probe victim:probe": 6}),
    Row("rs_uprobe", "--cookie 7 ./known counted",
        {"handle__uprobe counted": 8, "handle__uprobe_with_cookie counted": 8}, {"ringbuf": 16}),
    Row("rs_uprobe_multi", "--map hash_map ./known counted",
        {f"handle__uprobe_multi{end} counted": 8 for end in ("", "_with_opts", "_with_non_default_opts")},
        maps={"hash_map": {0: 8, 1: 16}}),
    Row("rs_usdt", "usdt attach --cookie 7 ./known victim:probe",
        {"handle__usdt victim:probe": 6, "handle__usdt_with_cookie victim:probe": 6}, {"ringbuf": 12}),
    Row("self_test_attach_probe_old", "./known counted", refused='legacy map definitions (struct bpf_map_def, SEC("maps"))'),
    # Kernels may refuse test_regs_change, which writes registers.
    Row("self_test_uprobe", "--set my_pid=%pid --map .bss --program-name test1 --program-name test2 --program-name test3 "
        "--program-name test4=without_arguments ./known",
        {**{f"{program} urandlib_api_sameoffset": 3 for program in ("test1", "test2", "test3")}, "test4 without_arguments": 5},
        maps={".bss": {"test1_result": 1, "test2_result": 1, "test3_result": 7, "test4_result": 1}}),
    Row("self_test_uprobe_autoattach", "./known without_arguments",
        {**both("handle_uprobe_byname", "handle_uretprobe_byname", {"autoattach_trigger_func": 2}),
         **both("handle_uprobe_byname2", "handle_uretprobe_byname2", {"malloc": 9}),
         "handle_uprobe_noautoattach without_arguments": 5}, program="known calls"),
    # The arguments of the last call, sign-extended; numbers above 2^53 are texts.
    Row("self_test_usdt", "usdt attach --set my_pid=%pid --map .bss ./known test:usdt0",
        {"usdt0 test:usdt0": 4, "usdt3 test:usdt3": 5, "usdt12 test:usdt12": 2},
        maps={".bss": {"usdt0_called": 4, "usdt0_arg_cnt": 0, "usdt0_arg_ret": -2, "usdt3_called": 5, "usdt3_arg_cnt": 3,
                       "usdt3_arg_rets": [0, 0, 0], "usdt3_args": [str((1 << 64) - 5), 5 << 40, str(0xfedcba9876543215)],
                       "usdt12_called": 2, "usdt12_arg_cnt": 12,
                       "usdt12_args": [str((1 << 64) - 1), 2, str((1 << 64) - 3), str((1 << 64) - 2), 5, 6, str((1 << 63) + 2), 8,
                                       str((1 << 64) - 9), 10, str((1 << 64) - 11), str((1 << 64) - 12)]}}),
    # Two programs count in the same variables, and those that may sleep in one of their own.
    Row("self_uprobe_multi", f"--set pid=%pid {ADDRESSES} --map .bss",
        {f"{program} {function}": count for function, count in MULTI.items()
         for program in ("uprobe", "uretprobe", "uprobe_sleep", "uretprobe_sleep", "uprobe_extra")},
        maps={".bss": {**{f"{end}_multi_func_{i}_result": 2 * (i + 1) for end in ("uprobe", "uretprobe") for i in (1, 2, 3)},
                       "uprobe_multi_sleep_result": 18}}),
    # Its programs are run at returns of the second function only.
    Row("self_uprobe_multi_session", f"--set pid=%pid {ADDRESSES} --map .bss",
        {f"{program} {function}": count * (2 if function == "uprobe_multi_func_2" else 1)
         for function, count in MULTI.items() for program in ("uprobe", "uprobe_sleepable")},
        maps={".bss": {"uprobe_session_result": [4, 12, 8], "uprobe_multi_sleep_result": 12}}, needs="uprobe_session"),
    Row("tut_38-btf-uprobe_test-verify_minimal_uprobe", "", {"do_uprobe_trace target_func": 5}, program="victim"),
    Row("tut_38-btf-uprobe_test-verify_verify-failed-no-btf_uprobe_failed", ADD_TEST, {"add_test add_test": 2},
        program="examples/btf-base"),
    Row("tut_38-btf-uprobe_test-verify_verify-memory-access_uprobe_failed", ADD_TEST, program="examples/btf-base",
        refused="rejected by the kernel's verifier"),
    Row("tut_bashreadline", "./bash readline", {"printret readline": 3}, program="bash"),
    Row("tut_cuda_events", named((f"cuda_{name}_{end}", function) for name, function in CUDA.items()
                                 for end in ("enter", "exit")) + " ./known", cuda_hits(), {"rb": 24}),
    Row("tut_funclatency", f"--map .bss {REST}", REST_HITS),
    Row("tut_goroutine", "", {"uprobe_runtime_casgstatus runtime.casgstatus": 10}, {"rb": 10}, program="go-server-http/main"),
    Row("tut_javagc", f"usdt attach {GC} ./known", GC_HITS, {"perf_map": 5}),
    Row("tut_memleak", f"--set stack_flags=256 {memleak()} libc.so.6", memleak_hits(), program="known calls"),
    Row("tut_sslsniff", f"{SNIFF} {SNIFF_EX} ./known", {**SNIFF_HITS, **SNIFF_EX_HITS}, {"perf_SSL_events": 5}),
    Row("tut_uprobe", ADD_TEST, {"add_test add_test": 2}, program="examples/btf-base"),
]


def check_refusal(row, records, said):
    errors = [line for line in said.splitlines() if line.startswith("uprobectl: error: ")]
    if records is not None:
        return [f"it was attached: {said}"]
    return [] if len(errors) == 1 and row.refused in errors[0] else [f"said: {said}"]


def check(uprobectl, row):
    """What differs from the row."""
    words = [re.sub(r"&(\w+)", lambda name: str(objects.symbol_value("known", name[1])), word) for word in row.words.split()]
    at = 2 if words[:1] == ["usdt"] else 0
    with objects.Calls(*row.program.split()) as calls:
        records, said = objects.attach(uprobectl, calls, *words[:at], "--object", f"objects/{row.file}.o", *words[at:])
        if row.refused:
            return check_refusal(row, records, said)
        if records is None:
            return [f"it was not attached: {said}"]
        calls.end()
    hits = {f"{record['program']} {record['symbol']}": record["hits"] for record in records if record["type"] == "probe"}
    problems = [] if hits == row.hits else [f"hits {hits}, expected {row.hits}"]
    sent = Counter(record["map"] for record in records if record["type"] == "event")
    problems += [] if sent == row.records else [f"records {dict(sent)}, expected {row.records}"]
    entries = [record for record in records if record["type"] == "map_entry"]
    for name, expected in row.maps.items():
        values = {"pid" if record["key"] == calls.pid else record["key"]: record["value"]
                  for record in entries if record["map"] == name}
        if name == ".bss":
            values = next(record["value"] for record in entries if record["map"].endswith(name))
            values = {variable: values.get(variable) for variable in expected}
        problems += [] if values == expected else [f"map {name}: {values}, expected {expected}"]
    summary = next(record for record in records if record["type"] == "summary")
    problems += [] if summary["detached_cleanly"] else ["not detached cleanly"]
    return [f"{problem}; said: {said}" for problem in problems]


def main():
    tap = Tap()
    if reason := objects.reason_to_skip():
        tap.skip("counts of public objects", reason)
        tap.done()
        return
    uprobectl, known_calls = (str(Path(each).resolve()) for each in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        objects.prepare(known_calls)
        Path("types.c").write_text(TYPES, encoding="ascii")
        subprocess.run(["clang-19", "-target", "bpf", "-g", "-c", "types.c", "-o", "types"], check=True, timeout=objects.LIMIT)
        present = {path.stem for path in Path("objects").iterdir()}
        tap.check("each object of the corpus is in the table", sorted(present ^ {row.file for row in ROWS}))
        doctor = subprocess.run([uprobectl, "doctor"], capture_output=True, text=True, timeout=objects.LIMIT, check=False).stdout
        for row in ROWS:
            name = f"{row.file}: {'refused with the reason' if row.refused else 'whole, with exact counts'}"
            if row.needs and f"\n{row.needs}\tyes" not in doctor:
                tap.skip(name, f"this kernel has no {row.needs}")
            else:
                tap.check(name, check(uprobectl, row))
        os.chdir("/")
    tap.done()


main()
