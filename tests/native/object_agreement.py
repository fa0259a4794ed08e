#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""object_agreement.py UPROBECTL LOADER KNOWN_CALLS
What `attach --object` shows of published BPF objects, against what LOADER (object_loader.c: libbpf alone) reads of the
same calls as bytes. The structures are those of the public sources of the objects, written here by hand. Two tools of
bcc are also compared with what they print of known calls. Needs root. Prints TAP."""

import os
import re
import struct
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Callable, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import public_objects as objects
from tap import Tap

TAP = Tap()


class LIBC:
    path = ""
    base = 0


CUDA_EVENTS = ["CUDA_EVENT_MALLOC", "CUDA_EVENT_FREE", "CUDA_EVENT_MEMCPY", "CUDA_EVENT_LAUNCH_KERNEL",
               "CUDA_EVENT_STREAM_CREATE", "CUDA_EVENT_STREAM_SYNC", "CUDA_EVENT_GET_DEVICE", "CUDA_EVENT_SET_DEVICE",
               "CUDA_EVENT_EVENT_CREATE", "CUDA_EVENT_EVENT_RECORD", "CUDA_EVENT_EVENT_SYNC"]
CUDA = {"malloc": "cudaMalloc", "free": "cudaFree", "memcpy": "cudaMemcpy", "set_device": "cudaSetDevice"}
ALLOCATORS = ["malloc", "calloc", "realloc", "mmap", "mremap", "posix_memalign", "aligned_alloc", "memalign", "valloc", "pvalloc"]
USER_STACK = 256  # BPF_F_USER_STACK of linux/bpf.h
STACKS = 65536  # in a larger table two stacks seldom have one id


def text(data):
    return data.split(b"\0")[0].decode()


def unpack(layout, names, data):
    """A structure without padding at its end, or with more bytes after it."""
    values = struct.unpack_from("<" + layout, data)
    return {name: text(value) if isinstance(value, bytes) else value for name, value in zip(names.split(), values)}


def cuda_event(data):
    """eunomia-bpf/bpf-developer-tutorial, src/47-cuda-events/cuda_events.h: struct event, 112 bytes."""
    assert len(data) == 112
    pid, comm, kind = struct.unpack_from("<i16sI", data)
    size, memcpy_kind = struct.unpack_from("<Qi", data, 24)  # a union
    device = struct.unpack_from("<i", data, 24)[0]
    ret_val, is_return, details = struct.unpack_from("<i?64s", data, 40)
    return {"pid": pid, "comm": text(comm), "type": CUDA_EVENTS[kind], "mem": {"size": size}, "free_data": {"ptr": hex(size)},
            "memcpy_data": {"size": size, "kind": memcpy_kind}, "launch": {"func": hex(size)}, "device": {"device": device},
            "handle": {"handle": hex(size)}, "ret_val": ret_val, "is_return": is_return, "details": text(details)}


def host_event(data):
    """iovisor/bcc, libbpf-tools/gethostlatency.h: struct event."""
    return unpack("QI16s80s", "time pid comm host", data)


def ssl_data(data):
    """bpf-developer-tutorial, src/30-sslsniff/sslsniff.h: struct probe_SSL_data_t. Records end in the data, but for
    padding of the kernel."""
    head = unpack("QQIIIIii16s", "timestamp_ns delta_ns pid tid uid len buf_filled rw comm", data)
    rest = unpack("i", "is_handshake", data[8248:]) if len(data) > 8248 else {}
    return {**head, "buf": data[56:8248].hex(), **rest}


def queued_event(data):
    """eunomia-bpf/bpftime, example/bpf_features/queue_demo/uprobe_queue.bpf.c: struct event_data."""
    return unpack("QIIIIi16s", "timestamp pid tid counter function_id input_value comm", data)


def stack_event(data):
    """bpftime, example/bpf_features/get_stack_id_example: struct event."""
    event = unpack("iiQI", "pid stack_id addr operation", data)
    return {**event, "stack_id": hex(event["stack_id"]), "addr": hex(event["addr"]), "operation": ["MALLOC_ENTER", "FREE_ENTER"][event["operation"]]}


def collection(data):
    """bcc, libbpf-tools/javagc.h: struct data_t."""
    return unpack("IIQ", "cpu pid ts", data)


def alloc_info(data):
    """bcc, libbpf-tools/memleak.h: struct alloc_info."""
    info = unpack("QQi", "size timestamp_ns stack_id", data)
    return {**info, "stack_id": hex(info["stack_id"])}


def combined_alloc_info(data):
    """bcc, libbpf-tools/memleak.h: union combined_alloc_info, bit-fields of 40 and 24 bits."""
    bits = struct.unpack("<Q", data)[0]
    return {"total_size": bits & (1 << 40) - 1, "number_of_allocs": bits >> 40, "bits": bits}


def frames(data):
    """Addresses of callers lie in their calls."""
    found = [address for address in struct.unpack(f"<{len(data) // 8}Q", data) if address]
    before = [address - (1 if number > 0 else 0) for number, address in enumerate(found)]
    return [f"libc.so.6+{address - LIBC.base:#x}" if address > LIBC.base else f"known+{address:#x}" for address in before]


def of_each_cpu(decode, size):
    """Values of per-CPU maps follow each other, each of a multiple of 8 bytes."""
    step = (size + 7) // 8 * 8
    return lambda data: [decode(data[at:at + size]) for at in range(0, len(data), step)]


def integer(data):
    return int.from_bytes(data, "little")


class Case(NamedTuple):
    """locations: PROGRAM=FILE:FUNCTION; buffers, maps: their decoders; expected: problems of what both have."""
    title: str
    file: str
    locations: list
    buffers: dict = {}
    maps: dict = {}
    options: list = []  # of uprobectl
    loader_options: list = []
    program: str = "known calls"
    usdt: bool = False
    # Members that differ from run to run.
    without: frozenset = frozenset()
    expected: Callable = None


def stripped(value, without):
    if isinstance(value, dict):
        return {name: stripped(member, without) for name, member in value.items() if name not in without}
    if isinstance(value, list):
        return [stripped(each, without) for each in value]
    if isinstance(value, str) and (frame := re.fullmatch(r".*\((\S+\+0x[0-9a-f]+)\)", value)):
        return frame[1]
    # JSON has larger numbers as text.
    return str(value) if isinstance(value, int) and abs(value) > 1 << 53 else value


def shown_by_uprobectl(uprobectl, case):
    """Records by buffer, entries by map and key."""
    words = [word for name in (*case.buffers, *case.maps) for word in ("--map", name)]
    for location in case.locations:
        words += ["--program-name", location]
    with objects.Calls(*case.program.split()) as calls:
        target = case.locations[0].split("=")[1].split(":")[0]
        records, said = objects.attach(uprobectl, calls, *(["usdt", "attach"] if case.usdt else []), *case.options, *words,
                                       "--object", f"objects/{case.file}.o", target)
        if records is None:
            raise RuntimeError(f"uprobectl: {said}")
        calls.end()
    sent, entries = defaultdict(list), defaultdict(list)
    for record in records:
        if record["type"] == "event":
            sent[record["map"]].append(record["record"])
        elif record["type"] == "map_entry":
            entries[record["map"]].append((record["key"], record["value"]))
    return sent, entries


def read_by_loader(loader, case):
    with objects.Calls(*case.program.split()) as calls:
        dumps = [word for name in case.maps for word in ("-d", name)]
        records, said = objects.load(loader, calls, f"objects/{case.file}.o", *case.loader_options, *dumps, *case.locations)
        if records is None:
            raise RuntimeError(f"loader: {said}")
        calls.end()
    sent, entries = defaultdict(list), defaultdict(list)
    for record in records:
        if record["type"] == "record":
            sent[record["map"]].append(case.buffers[record["map"]](bytes.fromhex(record["bytes"])))
        elif record["type"] == "entry":
            name = next(name for name in case.maps if name in (record["map"], record["map"][8:]))
            value = case.maps[name](bytes.fromhex(record["value"]))
            entries[record["map"]].append((integer(bytes.fromhex(record["key"])), value))
    return sent, entries


def differences(name, left, right):
    """The first one, and the numbers of both."""
    for number, (ours, theirs) in enumerate(zip(left, right)):
        if ours != theirs:
            return [f"{name}, number {number}: {ours}, by libbpf: {theirs}"]
    return [] if len(left) == len(right) else [f"{name}: {len(left)}, by libbpf: {len(right)}"]


def compare(uprobectl, loader, case):
    shown, ours = shown_by_uprobectl(uprobectl, case)
    read, theirs = read_by_loader(loader, case)
    problems = []
    for name in case.buffers:
        left, right = stripped(shown[name], case.without), stripped(read[name], case.without)
        problems += differences(name, left, right)
    queues = [name for name in theirs if len({key for key, _ in theirs[name]}) < len(theirs[name])]
    for name in set(ours) | set(theirs):
        left, right = stripped(list(map(list, ours[name])), case.without), stripped(list(map(list, theirs[name])), case.without)
        if name in queues:  # they have no keys
            left, right = [value for _, value in left], [value for _, value in right]
        problems += differences(f"map {name}", sorted(left, key=str), sorted(right, key=str))
    if case.expected:
        problems += case.expected(read, {name: [value for _, value in pairs] for name, pairs in theirs.items()})
    return problems


def differ(what, actual, expected):
    return [] if actual == expected else [f"{what}: {actual}, expected {expected}"]


def expected_cuda(read, _):
    seen = [(event["type"][11:], event["is_return"], event["ret_val"] if event["is_return"] else event["mem"]["size"])
            for event in read["rb"]]
    return differ("cuda", seen, [("MALLOC", False, 100), ("MALLOC", True, 2), ("MALLOC", False, 1 << 40), ("MALLOC", True, 0),
                                 ("MEMCPY", False, 4096), ("MEMCPY", True, 2), ("FREE", False, 0x1234), ("FREE", True, 0),
                                 ("SET_DEVICE", False, 0xfffffffd), ("SET_DEVICE", True, 15)])


def expected_ssl(read, values):
    seen = [(event["rw"], event["len"], bytes.fromhex(event["buf"])[:event["len"]][:14]) for event in read["perf_SSL_events"]]
    last = [value["rw"] for value in values["ssl_data"][0] if value["comm"] == "known"]
    return differ("records", seen, [(1, 14, b"GET / HTTP/1.1"), (0, 5, b"hello"), (1, 9, b"once more"), (1, 8192, b"r" * 14),
                                    (2, 1, b"\0")]) + differ("last", last, [2])


def expected_queue(_, values):
    seen = [(value["counter"], value["function_id"], value["input_value"]) for value in values["events_queue"]]
    return differ("queue", seen, [(1, 1, -1), (2, 1, -2), (3, 1, -3), (4, 2, 0), (5, 1, -4), (6, 1, -5), (7, 1, -6), (8, 2, 0),
                                  (9, 1, -7)])


def expected_collections(read, _):
    return differ("collections", len(read["perf_map"]), 5)


def expected_histogram(_, values):
    """1.1 s are in the slot from 1024 to 2047 ms, 0.3 s in that from 256 to 511."""
    return differ("slots", {slot: count for slot, count in enumerate(values["bcc_func.bss"][0]["hist"]) if count}, {8: 2, 10: 3})


def expected_stacks(read, _):
    operations = [event["operation"] for event in read["rb"]]
    return differ("operations", (operations.count("MALLOC_ENTER"), operations.count("FREE_ENTER"), len(operations)), (9, 3, 12))


def memleak_locations():
    return [f"{name}_{end}={LIBC.path}:{name}" for name in ALLOCATORS for end in ("enter", "exit")] + \
        [f"free_enter={LIBC.path}:free", f"munmap_enter={LIBC.path}:munmap"]


def rodata(file, name, value):
    return ["-b", f".rodata:{objects.symbol_value(f'objects/{file}.o', name)}={value}"]


def cases():
    pairs = [f"cuda_{name}_{end}=./known:{function}" for name, function in CUDA.items() for end in ("enter", "exit")]
    sniffed = [f"probe_SSL_rw_enter=./known:{name}" for name in ("SSL_read", "SSL_write")] + \
        [f"probe_{name}_exit=./known:{name}" for name in ("SSL_read", "SSL_write")] + \
        [f"probe_{name}_ex_{end}=./known:{name}_ex" for name in ("SSL_read", "SSL_write") for end in ("enter", "exit")] + \
        [f"probe_SSL_do_handshake_{end}=./known:do_handshake" for end in ("enter", "exit")]
    # libbpf before the layout of their arguments in this object cannot pass those of static probes.
    collected = [f"handle_{program}=./known:hotspot:{name}" for program, name in (
        ("gc_start", "gc__begin"), ("gc_end", "gc__end"), ("mem_pool_gc_start", "mem__pool__gc__begin"),
        ("mem_pool_gc_end", "mem__pool__gc__end"))]
    return [
        Case("records of a ring buffer, with a union", "tut_cuda_events", pairs, {"rb": cuda_event}, without={"pid"},
             expected=expected_cuda),
        Case("records of a perf event array of several lengths, and a per-CPU map", "tut_sslsniff", sniffed,
             {"perf_SSL_events": ssl_data}, {"ssl_data": of_each_cpu(ssl_data, 8256)},
             without={"timestamp_ns", "delta_ns", "pid", "tid"}, expected=expected_ssl),
        Case("a queue", "bpftime_uprobe_queue", ["target_function_entry=./target:target_function",
                                                 "secondary_function_entry=./target:secondary_function"],
             maps={"events_queue": queued_event, "call_counter": integer}, program="target", without={"timestamp", "pid", "tid"},
             expected=expected_queue),
        Case("records of static probes", "bcc_javagc", collected, {"perf_map": collection}, usdt=True, without={"pid", "ts"},
             expected=expected_collections),
        Case("slots of a histogram", "bcc_funclatency", ["dummy_kprobe=./known:rest", "dummy_kretprobe=./known:rest"],
             maps={".bss": lambda data: {"hist": list(struct.unpack_from("<25I", data))}}, program="known slow",
             options=["--set", "units=2"], loader_options=rodata("bcc_funclatency", "units", "02000000"),
             expected=expected_histogram),
        Case("ids of stacks in records, and the stacks", "bpftime_get_stack_id_example",
             [f"malloc_enter={LIBC.path}:malloc", f"free_enter={LIBC.path}:free"], {"rb": stack_event}, {"stack_traces": frames},
             options=["--as", "stack_id=hex"], without={"pid"}, expected=expected_stacks),
        Case("a hash map with ids of stacks, and the sums of each stack", "bcc_memleak", memleak_locations(),
             maps={"allocs": alloc_info, "combined_allocs": combined_alloc_info},
             options=["--set", f"stack_flags={USER_STACK}", "--set", "combined_only=true", "--map-entries",
                      "combined_allocs=10240", "--map-entries", f"stack_traces={STACKS}", "--as", "allocs.stack_id=hex"],
             loader_options=[*rodata("bcc_memleak", "stack_flags", struct.pack("<Q", USER_STACK).hex()),
                             *rodata("bcc_memleak", "combined_only", "01"), "-s", "combined_allocs=10240",
                             "-s", f"stack_traces={STACKS},{127 * 8}"],
             without={"timestamp_ns"}),
    ]


def outstanding(entries):
    """By the innermost function of each stack: bytes and allocations, as memleak adds them up."""
    sums = defaultdict(lambda: [0, 0])
    for stack, size, count in entries:
        if count > 0:
            sums[stack[0].split("+")[0]][0] += size
            sums[stack[0].split("+")[0]][1] += count
    return {function: tuple(sum_) for function, sum_ in sums.items()}


def check_memleak(uprobectl):
    """bcc's tool adds up what is in `allocs`, and prints `combined_allocs` with --combined-only."""
    # 5 * 100; 2 * 4 * 25; 300; 1000 + 128 + 192 + 500 + 600; 8192 + 12288. What is freed, moved and unmapped is left out.
    expected = {"keep_small": (500, 5), "keep_cleared": (200, 2), "keep_grown": (300, 1), "keep_aligned": (2420, 5),
                "keep_mapped": (20480, 2)}
    case = Case("", "bcc_memleak", memleak_locations(), maps={"allocs": None, "combined_allocs": None},
                options=["--set", f"stack_flags={USER_STACK}", "--set", "combined_only=true", "--map-entries",
                         "combined_allocs=10240", "--map-entries", f"stack_traces={STACKS}", "--as", "combined_allocs.key=stack"])
    _, entries = shown_by_uprobectl(uprobectl, case)
    allocs = outstanding((value["stack_id"], value["size"], 1) for _, value in entries["allocs"])
    combined = outstanding((key, value["total_size"], value["number_of_allocs"]) for key, value in entries["combined_allocs"])
    TAP.check("memleak: what is outstanding, by its stack", differ("allocs", allocs, expected))
    TAP.check("memleak --combined-only: the sums of each stack", differ("combined_allocs", combined, expected))


def check_gethostlatency(uprobectl):
    """bcc's tool attaches its two programs to three functions, and prints PID, COMM, LATms and HOST."""
    with objects.Calls("known") as calls:
        records, said = objects.attach(uprobectl, calls, "--object", "objects/bcc_gethostlatency.o", "libc.so.6", "getaddrinfo",
                                       "gethostbyname", "gethostbyname2")
        calls.end()
    lines, problems = [], [] if records else [said]
    for record in (each["record"] for each in records or [] if each["type"] == "event"):
        lines.append(f"{record['pid']} {record['comm']} {record['host']}")
        if not 0 < record["time"] < objects.LIMIT * 10 ** 9:
            problems.append(f"latency {record['time']} ns")
    hosts = ["127.0.0.1", "127.0.0.2", "127.0.0.1", "no number", "127.0.0.3", "127.0.0.4"]
    TAP.check("gethostlatency: process, name and host of each call",
              problems + differ("lines", lines, [f"{calls.pid} known {host}" for host in hosts]))


def check_unread(uprobectl):
    """--map of another map reads no buffer, which is said."""
    with objects.Calls("known", "calls") as calls:
        records, said = objects.attach(uprobectl, calls, "--object", "objects/tut_sslsniff.o", "--map", "ssl_data", "./known")
    events = [record for record in records or [] if record["type"] == "event"]
    TAP.check("records that --map leaves out are not silently missing",
              differ("records", len(events), 0) + differ("said", "request them with --map: perf_SSL_events" in said, True))


def main():
    if reason := objects.reason_to_skip():
        TAP.skip("public objects as libbpf runs them", reason)
        TAP.done()
        return
    uprobectl, loader, known_calls = (str(Path(each).resolve()) for each in sys.argv[1:4])
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        objects.prepare(known_calls)
        linked = subprocess.run(["ldd", "./known"], capture_output=True, text=True, check=True, timeout=objects.LIMIT).stdout
        LIBC.path = next(words[2] for words in map(str.split, linked.splitlines()) if words[0] == "libc.so.6")
        with objects.Calls("known") as calls:
            maps = Path(f"/proc/{calls.pid}/maps").read_text(encoding="utf-8").splitlines()
            LIBC.base = int(next(line for line in maps if line.endswith("/libc.so.6")).split("-")[0], 16)
        for case in cases():
            TAP.check(f"{case.file}: {case.title}: as libbpf reads them", compare(uprobectl, loader, case))
        check_memleak(uprobectl)
        check_gethostlatency(uprobectl)
        check_unread(uprobectl)
        os.chdir("/")
    TAP.done()


if __name__ == "__main__":
    main()
