#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""live_exports.py UPROBECTL FIXTURES
Attaches to a program of ours, and compares the exports of the run with its JSON records one by one: protoc
decodes the Perfetto trace, go tool pprof the profile. Prints TAP. Needs root."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from argparse import Namespace
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "guest")]
import run_native_suite
from perfetto_trace import Trace
from tap import Tap

CALLS, THREADS = 40, 3


def attach(uprobectl, folder, options, target, functions, command):
    result = subprocess.run([uprobectl, "attach", "-j", "-d", "60", *options, target, *functions, "--", *command],
                            cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    if result.returncode != 0:
        raise RuntimeError(result.stderr)
    return [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]


def arguments_of(event):
    return {each["name"]: each["value"] for each in event["arguments"] or []}


def slice_of(event):
    return (event["pid"], event["tid"], event["comm"], event["symbol"], event["time_ns"] - event["latency_ns"],
            event["time_ns"], {**arguments_of(event), "return_value": event["return_value"]})


def key(slice_):
    return json.dumps(slice_, sort_keys=True)


def differences(found, expected):
    missing, more = Counter(map(key, expected)) - Counter(map(key, found)), Counter(map(key, found)) - Counter(map(key, expected))
    return [f"{len(missing)} are missing: {list(missing)[:3]}", f"{len(more)} are too many: {list(more)[:3]}"] if missing or more else []


def page_calls(path):
    """The calls of a page (src/output/page.cpp describes its lines)."""
    names, tids, calls = {}, {}, []
    for line in path.read_text().split('<script type="text/plain" id="run">\n')[1].splitlines():
        kind, *fields = line.split("\t")
        if kind == "n":
            names[fields[0]] = json.loads(fields[1])
        elif kind == "t":
            tids[fields[0]] = int(fields[2])
        elif kind == "c":
            calls.append((tids[fields[0]], names[fields[1]], int(fields[2]), int(fields[3]), json.loads(fields[4])))
    return calls


def check_latency(tap, uprobectl, fixtures, folder):
    workload = fixtures / "workload"
    records = attach(uprobectl, folder, ["--latency", "-o", "a.pftrace", "-o", "a.trace.json", "-o", "a.pb.gz", "-o", "a.html"], workload,
                     ["work_six", "work_count"], [workload, "--calls", str(CALLS), "--threads", str(THREADS)])
    events = [each for each in records if each["type"] == "event"]
    attached = next(each for each in records if each["type"] == "attached")
    tap.check("all calls are recorded", [] if len(events) == 2 * CALLS * THREADS else [f"{len(events)} events"])
    trace = Trace((folder / "a.pftrace").read_bytes())
    tap.check("the slices of a Perfetto trace are the events, one by one", differences(trace.slices, list(map(slice_of, events))))
    clocks = attached["clocks"]
    tap.check("the clocks of its begin are those of the record",
              [] if trace.clocks[0] == {3: clocks["monotonic"], 6: clocks["boottime"], 1: clocks["realtime"]} else [trace.clocks[0]])
    tap.check("the process has a name", [] if set(trace.processes.values()) == {"workload"} else [trace.processes])
    chrome = [(each["tid"], each["name"], round(each["ts"] * 1000), round(each["dur"] * 1000), each["args"])
              for each in json.loads((folder / "a.trace.json").read_text()) if each["ph"] == "X"]
    tap.check("the events of a Chrome trace are the events, one by one",
              differences(chrome, [(each["tid"], each["symbol"], each["time_ns"] - each["latency_ns"], each["latency_ns"],
                                    {**arguments_of(each), "return_value": each["return_value"]}) for each in events]))
    start = clocks["monotonic"]
    tap.check("the calls of a page are the events, one by one",
              differences(page_calls(folder / "a.html"),
                          [(each["tid"], each["symbol"], each["time_ns"] - each["latency_ns"] - start, each["latency_ns"],
                            {**arguments_of(each), "return_value": each["return_value"]}) for each in events]))
    if not shutil.which("go"):
        tap.skip("pprof shows the sums of the events", "no program 'go'")
        return
    own = {}
    for event in events:
        hits, time = own.get(event["symbol"], (0, 0))
        own[event["symbol"]] = (hits + 1, time + event["latency_ns"])
    tap.check("pprof shows the sums of the events", [] if top(folder) == own else [f"{top(folder)}, not {own}"])


def check_sums(tap, uprobectl, fixtures, folder):
    """A profile has what is measured of counts, and the hits of a histogram."""
    if not shutil.which("go"):
        tap.skip("pprof has the sums of counts", "no program 'go'")
        return
    workload = fixtures / "workload"
    for options, kind, measured, column in [(["--count", "--by", "tid", "--measure", "arg0"], "count", "sum", "arg0"),
                                            (["--histogram"], "histogram", "total", "time"),
                                            (["--histogram", "--measure", "arg0"], "histogram", "count", "samples")]:
        records = attach(uprobectl, folder, [*options, "-o", "a.pb.gz"], workload, ["work_six", "work_count"],
                         [workload, "--calls", str(CALLS), "--threads", str(THREADS)])
        expected = {}
        for each in records:
            if each["type"] == kind:
                known = expected.get(each["symbol"], (0, 0))
                expected[each["symbol"]] = (known[0] + each["count"], known[1] + each[measured])
        found = top(folder, column)
        tap.check(f"pprof has the sums of {' '.join(options)}", [] if found == expected and expected else [found, expected])


def top(folder, values="time"):
    """Of each function its samples and nanoseconds, or the values of another column."""
    def column(index):
        text = subprocess.run(["go", "tool", "pprof", "-top", "-unit=ns", f"-sample_index={index}", "a.pb.gz"], cwd=folder,
                              capture_output=True, text=True, check=True, env={"PATH": "/usr/bin:/bin", "HOME": str(folder)}).stdout
        return {name: int(value) for value, name in re.findall(r"(?m)^ *([0-9]+)(?:ns)? .* [0-9.]+% +(\S.*)$", text)}
    hits = column("samples")
    return {name: (hits[name], value) for name, value in column(values).items()}


def check_stacks(tap, uprobectl, fixtures, folder):
    depths = fixtures / "depths"
    records = attach(uprobectl, folder, ["--latency", "--stack", "-o", "a.pb.gz", "-o", "a.folded"], depths, ["depth_leaf"],
                     [depths, "plain", "30", "0"])
    events = [each for each in records if each["type"] == "event"]
    total = sum(event["latency_ns"] for event in events)
    lines = [line.rsplit(" ", 1) for line in (folder / "a.folded").read_text().splitlines()]
    tap.check("folded lines have the sum of the latencies", [] if sum(int(line[1]) for line in lines) == total else [lines, total])
    if not shutil.which("go"):
        tap.skip("pprof has the stacks of the events", "no program 'go'")
        return
    raw = subprocess.run(["go", "tool", "pprof", "-raw", "a.pb.gz"], cwd=folder, capture_output=True, text=True, check=True,
                         env={"PATH": "/usr/bin:/bin", "HOME": str(folder)}).stdout
    locations = {number: (address, name) for number, address, name in
                 re.findall(r"(?m)^ *([0-9]+): (0x[0-9a-f]+) M=[0-9]+ (\S+)", raw)}
    samples = [[locations[number] for number in numbers.split()] for numbers in re.findall(r"(?m)^ +[0-9]+ +[0-9]+: ([0-9 ]+)$", raw)]
    expected = {tuple((frame["module_address"], frame["demangled"] or frame["symbol"]) for frame in event["stack"]
                      if frame["symbol"]) for event in events}
    found = {tuple(sample) for sample in samples}
    tap.check("pprof has the stacks of the events, with addresses of the files", [] if found == expected else [found, expected])
    tap.check("and the build ids of the files",
              [build_id for build_id in {frame["build_id"] for event in events for frame in event["stack"] if frame["build_id"]}
               if build_id not in raw])


def check_reported(tap, uprobectl, fixtures, folder):
    """A profile has each hit as one sample, also that of a saved run: with its caller, or the record of a user's program."""
    depths, workload = fixtures / "depths", fixtures / "workload"
    for what, options, target, function, command, frames in [
            ("hit with its caller", ["--caller"], depths, "depth_leaf", [depths, "plain", "30", "0"], 2),
            ("record", ["-n", "1", "--object", fixtures / "greetings.bpf.o"], workload, "work_count", [workload], 1)]:
        if not shutil.which("go"):
            tap.skip(f"pprof has each {what} once", "no program 'go'")
            continue
        attach(uprobectl, folder, [*options, "--save", "saved.run", "-o", "live.pb.gz"], target, [function], command)
        subprocess.run([uprobectl, "report", "-q", "-o", "reported.pb.gz", "saved.run"], cwd=folder, stdout=subprocess.DEVNULL, check=True)
        for name in ("live", "reported"):
            raw = subprocess.run(["go", "tool", "pprof", "-raw", f"{name}.pb.gz"], cwd=folder, capture_output=True, text=True, check=True,
                                 env={"PATH": "/usr/bin:/bin", "HOME": str(folder)}).stdout
            samples = re.findall(r"(?m)^ +[0-9]+: ([0-9 ]+)$", raw.split("Locations")[0])
            tap.check(f"pprof has each {what} once ({name})", [] if [len(each.split()) for each in samples] == [frames] else [raw])
def check_saved(tap, uprobectl, fixtures, folder):
    """The exports of `report`, and its records, are those of the run."""
    workload = fixtures / "workload"
    command = [workload, "--calls", str(CALLS), "--threads", str(THREADS)]
    for options in (["--count"], ["--count", "--top", "1"], ["--count", "--per-process"], ["--histogram"], ["--caller"], ["--latency"],
                    ["--report"], ["--graph", "--root-min-latency", "1ns"]):
        names = ["a.trace.json", "a.pb.gz", "a.html", "a.pftrace"]
        exports = [word for name in names for word in ("-o", name)]
        records = attach(uprobectl, folder, [*options, *exports, "--save", "a.uprobes"], workload, ["work_six", "work_count"], command)
        of_run = {name: (folder / name).read_bytes() for name in names}
        again = subprocess.run([uprobectl, "report", "-j", *exports, "a.uprobes"], cwd=folder, capture_output=True, text=True,
                               timeout=60, check=True).stdout
        tap.check(f"{' '.join(options)}: report writes the same exports",
                  [name for name in names if (folder / name).read_bytes() != of_run[name]])
        tap.check(f"{' '.join(options)}: and the same records in the same order",
                  [] if [json.loads(line) for line in again.splitlines()] == records else [again[-2000:]])
        counters = [each for each in json.loads((folder / "a.trace.json").read_text()) if each["ph"] == "C"]
        counted = [each for each in records if each["type"] in ("count", "histogram")]
        begins, ends = ({round(each[key] / 1000, 3) for each in counted} for key in ("since_ns", "time_ns"))
        tap.check(f"{' '.join(options)}: counters have their values from the begin of what was counted to its end",
                  [each for each in counters if each["ts"] not in (begins if any(each["args"].values()) else ends)] or
                  ([] if len(counters) >= 2 * len(counted) > 0 or not counted else [counters, counted]))


def check_failure(tap, uprobectl, fixtures, folder):
    """A run that does not begin leaves the files as they were."""
    kept = folder / "kept.html"
    kept.write_text("mine")
    for name in ("new.html", "new.pftrace", "kept.html"):
        done = subprocess.run([uprobectl, "attach", "-d", "1", "-o", folder / name, fixtures / "workload", "no_such_function"],
                              cwd=folder, capture_output=True, text=True, timeout=60)
        tap.check(f"a run that does not begin fails ({name})", [] if done.returncode == 1 else [str(done)])
    tap.check("it leaves no file, and does not change one", [] if kept.read_text() == "mine" and not list(folder.glob("new.*"))
              else [str(list(folder.iterdir())), kept.read_text()])


def main(uprobectl, fixtures):
    tap = Tap()
    if os.geteuid() != 0 or not shutil.which("protoc"):
        tap.skip("exports of a run are its records", "not root" if os.geteuid() != 0 else "no program 'protoc'")
        return tap.done()
    if reason := run_native_suite.why_unusable(Namespace(bin=uprobectl, fixtures=fixtures)):
        tap.skip("exports of a run are its records", f"machine uprobes unusable: {reason}")
        return tap.done()
    with tempfile.TemporaryDirectory() as name:
        check_latency(tap, uprobectl, fixtures, Path(name))
        check_stacks(tap, uprobectl, fixtures, Path(name))
        check_reported(tap, uprobectl, fixtures, Path(name))
        check_sums(tap, uprobectl, fixtures, Path(name))
        check_saved(tap, uprobectl, fixtures, Path(name))
        check_failure(tap, uprobectl, fixtures, Path(name))
    return tap.done()


main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
