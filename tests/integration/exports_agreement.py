#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""exports_agreement.py EXPORT_MAKER
Reads exports of made calls and events (export_maker.cpp) with other people's programs: protoc, go tool
pprof, Python's JSON. Prints TAP."""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]
from perfetto_trace import Trace
from tap import Tap

UNREADABLE = "\ufffd"
SIX = {f"arg{i}": hex(i + 1) for i in range(5)} | {"arg5": "0xffffffffffffffff"}

# Thread 11: track, name, begin, end, and what it returned or why it ended.
CALLS = [("worker", "main", 1000, 2000, {"ended": "the run ended"}),
         ("worker", "parse(char const*)", 1100, 1400, {"return_value": "0x7"}),
         ("worker", "read", 1150, 1250, {"return_value": "0x7"}),
         ("worker stack 2", "next", 1450, 1700, {"return_value": "0x7"}),
         ("worker", "read", 1500, 1600, {"return_value": "0x7"}),
         ("worker", "read", 1650, 1750, {"ended": "no return seen"})]
# Times without the calls inside: main 1000 - 300 - 100 - 100.
FOLDED = """main 500
main;parse(char const*) 200
main;parse(char const*);read 100
main;read 200
next 250
"""
EVENTS = [(11, "main", "outer", 5000, 5999, {"return_value": "0x0"}),
          (12, "other", "outer", 5100, 6001, {"return_value": "0x0"}),
          (11, "main", "ns::inner(int)", 5200, 5300,
           {"path": "a" + UNREADABLE + 'b"\n', "size": -5, "return_value": "0x0"}),
          (11, "main", "ns::inner(int)", 5400, 5500, {"return_value": "0x0"}),
          (11, "main stack 2", "outer", 6000, 7000, {"return_value": "0x0"}),
          (11, "main", "ns::inner(int)", 6500, 7500, {"return_value": "0x0"})]
CLOCKS = [{3: 900, 6: 100900, 1: 500900}, {3: 9000, 6: 109000, 1: 509000}]


def make(maker, run, path):
    subprocess.run([maker, run, path], check=True)
    return path.read_bytes()


def difference(found, expected):
    return [] if found == expected else [f"found    {found!r}", f"expected {expected!r}"]


def check_perfetto(tap, maker, folder):
    data = make(maker, "calls", folder / "calls.pftrace")
    trace = Trace(data)
    slices = [(label, name, begin, end, {key: value for key, value in values.items() if not key.startswith("arg")})
              for _, _, label, name, begin, end, values in trace.slices]
    tap.check("calls are slices that nest, those of a coroutine beside them", difference(slices, CALLS))
    tap.check("a call has the arguments of its entry",
              difference({slice_[6]["arg0"] for slice_ in trace.slices}, {hex(call[2]) for call in CALLS}))
    tap.check("lost events are shown when they were lost",
              difference(trace.instants, [(0, 0, "lost events", 1750, {"count": 3, "reason": "ring buffer full"})]))
    tap.check("three clocks are read at the begin and at the end", difference(trace.clocks, CLOCKS))
    tap.check("the process has its name", difference(trace.processes, {10: "app"}))
    tap.check("categories are the probed files", difference(trace.categories, {"libmade.so", "libc.so.6", "uprobectl"}))
    cut = Trace(data[:packet_end(data, len(data) // 2)])
    tap.check("the beginning of a file, up to any packet, has the slices so far",
              [] if 0 < len(cut.slices) + cut.unfinished <= len(CALLS) and cut.unfinished > 0 else [f"{cut.slices}"])
    twice = Trace(data + make(maker, "events", folder / "events.pftrace"))
    tap.check("two files that are concatenated have the slices of both",
              difference(len(twice.slices), len(CALLS) + len(EVENTS)))

    trace = Trace((folder / "events.pftrace").read_bytes())
    slices = [(tid, label, name, begin, end, values) for _, tid, label, name, begin, end, values in trace.slices]
    tap.check("latencies are slices, those that overlap on another track", difference(slices, EVENTS))
    tap.check("hits without a duration are instants",
              difference(trace.instants, [(10, 12, "outer", 8000, SIX), (0, 0, "sent", 8000, {"id": 9, "at": {"x": -1}})]))


def packet_end(data, least):
    """The first end of a packet at or after a position. A packet is field 1 of the trace."""
    at = 0
    while at < least:
        assert data[at] == 0x0A
        size, shift, at = 0, 0, at + 1
        while True:
            size |= (data[at] & 0x7F) << shift
            shift, at = shift + 7, at + 1
            if data[at - 1] < 0x80:
                break
        at += size
    return at


def microseconds(number):
    return round(number * 1000)


def check_chrome(tap, maker, folder):
    data = make(maker, "events", folder / "events.trace.json").decode()
    events = json.loads(data)
    slices = [(each["tid"], each["name"], microseconds(each["ts"]), microseconds(each["ts"] + each["dur"]))
              for each in events if each["ph"] == "X"]
    expected = [(tid, name, begin, end) for tid, label, name, begin, end, _ in EVENTS if "stack" not in label]
    tap.check("Chrome: latencies are complete events", difference(sorted(slices), sorted(expected)))
    halves = [(each["ph"], each["name"], microseconds(each["ts"])) for each in events if each["ph"] in "be"]
    tap.check("Chrome: a call that overlaps is an asynchronous pair",
              difference(halves, [("b", "outer", 6000), ("e", "outer", 7000)]))
    tap.check("Chrome: arguments are those of the event",
              difference(next(each["args"] for each in events if each["ph"] == "X"), EVENTS[2][5] | {"return_value": "0x0"}))
    tap.check("Chrome: processes and threads have names",
              difference({(each["name"], each["tid"], each["args"]["name"]) for each in events if each["ph"] == "M"},
                         {("process_name", 10, "app"), ("thread_name", 11, "main"), ("thread_name", 12, "other")}))
    lines = data.split(",\n")
    tap.check("Chrome: the beginning of a file, up to any event, needs only its bracket",
              [problem for end in range(1, len(lines) + 1)
               if (problem := unreadable(",\n".join(lines[:end]).removesuffix("\n]\n") + "\n]"))])
    events = json.loads(make(maker, "calls", folder / "calls.trace.json"))
    halves = [(each["ph"], each["name"], microseconds(each["ts"])) for each in events if each["ph"] in "BEbe"]
    begun = sorted((begin, name) for _, name, begin, _, _ in CALLS)
    tap.check("Chrome: calls begin and end in time",
              difference((sorted((ts, name) for ph, name, ts in halves if ph in "Bb"),
                          sorted(ts for ph, _, ts in halves if ph in "Ee")), (begun, sorted(call[3] for call in CALLS))))


def unreadable(text):
    try:
        json.loads(text)
    except ValueError as problem:
        return f"{problem}: {text!r}"
    return None


def pprof(folder, path, *options):
    result = subprocess.run(["go", "tool", "pprof", *options, path], capture_output=True, text=True, check=False,
                            env={"PATH": "/usr/bin:/bin", "HOME": str(folder), "GOCACHE": str(folder / "cache")})
    return result.stdout + (result.stderr if result.returncode != 0 else "")


def check_pprof(tap, maker, folder):
    path = folder / "calls.pb.gz"
    make(maker, "calls", path)
    if not shutil.which("go"):
        tap.skip("pprof reads profiles", "no program 'go'")
        return
    top = pprof(folder, path, "-top", "-unit=ns")
    rows = {line.split(None, 5)[5]: line.split(None, 5)[:5:3] for line in top.splitlines() if re.match(r" *[0-9]+ns", line)}
    tap.check("pprof: own and total times are those of the calls",
              difference(rows, {"main": ["500ns", "1000ns"], "parse(char const*)": ["200ns", "300ns"],
                                "read": ["300ns", "300ns"], "next": ["250ns", "250ns"]}))
    counts = pprof(folder, path, "-top", "-sample_index=samples")
    tap.check("pprof: samples are numbers of calls",
              [] if re.search(r"(?m)^ *3 +50\.00% .* read$", counts) else [counts])
    raw = pprof(folder, path, "-raw")
    tap.check("pprof: mappings have their build ids, locations their addresses in the file",
              [f"no '{part}' in {raw}" for part in ("/opt/lib/libmade.so 0a1b2c", "/lib/libc.so.6 0a1b2c", "0x2000 M=1", "0x3000 M=2")
               if part not in raw])


def check_names(tap, maker, folder):
    trace = Trace(make(maker, "names", folder / "names.pftrace"))
    tap.check("names of any bytes are slices", difference(len(trace.slices), 6))
    longest = max(len(each[3].encode()) for each in trace.slices)
    tap.check("a name of a megabyte is cut", difference(longest, (64 << 10) + len("…".encode())))
    events = json.loads(make(maker, "names", folder / "names.trace.json"))
    tap.check("Chrome: and events", difference(len([each for each in events if each["ph"] == "X"]), 6))
    make(maker, "names", folder / "names.pb.gz")
    if shutil.which("go"):
        raw = pprof(folder, folder / "names.pb.gz", "-raw")
        hits = re.findall(r"(?m)^ +([0-9]+) +[0-9]+: [0-9]+ *$", raw)
        tap.check("pprof: and samples", difference(sum(map(int, hits)), 6))


def main(maker):
    tap = Tap()
    if not shutil.which("protoc"):
        tap.skip("exports are read by other programs", "no program 'protoc'")
        return tap.done()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        check_perfetto(tap, maker, folder)
        check_chrome(tap, maker, folder)
        check_pprof(tap, maker, folder)
        tap.check("folded lines of calls have their own times",
                  difference(make(maker, "calls", folder / "calls.folded").decode(), FOLDED))
        check_names(tap, maker, folder)
    return tap.done()


main(sys.argv[1])
