# SPDX-License-Identifier: Apache-2.0
"""The scenarios of the soak. Each takes a Workspace, the seconds it may load the machine, and a Findings."""

import itertools
import json
import re
import signal
import statistics
import subprocess
import time
from dataclasses import dataclass, field

from runs import PATIENCE, Attach, ControlGroup, Lines, Problem, Records, Workload, counts_of

LIBRARY = "./libsoak.so"
CALL = (LIBRARY, "soak_call")
ARGUMENTS = ("--args", "id:s64,text:str")
LIMIT = ("-d", "forever")

# No run takes more, also not while it prints a full table.
MOST_MEMORY = 192 << 20
# A table is in memory as a whole while it is read and printed, which takes a part of the interval.
TABLE_TOLERANCE = 64 << 20
# Deleted files that a run keeps open for the names of its stacks: 8 that no process maps, and 30 a second until it
# looks again: for 2 s it waits for late stacks of a process, and it looks once a second.
MOST_DELETED_FILES = 8 + 3 * 30


@dataclass
class Findings:
    """What a scenario has found wrong, and its figures."""

    problems: list = field(default_factory=list)
    rows: list = field(default_factory=list)
    notes: list = field(default_factory=list)

    def expect(self, what, expected, found):
        if expected != found:
            self.problems.append(f"{what}: expected {expected}, found {found}")

    def measure(self, name, run, hits, lost=None, **plateau):
        """Takes a run into the table of figures, and checks that it has reached a plateau (Attach.growth_problems)."""
        if lost is None:
            lost = sum(run.reader.lost.values())
        self.rows.append((name, hits, lost, run.peak(), run.descriptors(), run.cpu))
        found = [f"{name}: {each}" for each in run.growth_problems(**plateau)]
        if run.peak() > MOST_MEMORY:
            found.append(f"{name}: {run.peak() >> 20} MiB of memory")
        self.problems += found

    def expect_complete(self, records, calls, also=0):
        """Every call is an event, or counted as lost. also: calls that are neither, and counted elsewhere."""
        lost = sum(records.lost.values())
        self.problems += records.broken[:5]
        self.expect("hits", calls, records.hits)
        self.expect("events + lost", calls, records.events + lost + also)
        summary = records.one("summary")
        self.expect("events in the summary", records.events, summary["events"])
        self.expect("lost in the summary", lost, summary["lost"])
        self.expect("detached cleanly", True, summary["detached_cleanly"])


def watch_command(work, seconds, options, target, command, reader=None):
    """A run that starts the command and ends with it; and what the command has counted."""
    run = Attach(work, "-j", *LIMIT, "--command-output", "counted", *options, *target, "--", *map(str, command),
                 reader=reader)
    records = run.end(seconds)
    return run, records, counts_of((work.folder / "counted").read_text())


# --- stacks ---------------------------------------------------------------------------------------

TEXT = re.compile(rb'"name":"text","type":"str","value":"([^":]*):(\d+):(\d+)"')
SYMBOLS = re.compile(rb'"symbol":"([^"]*)"')
PID = re.compile(rb'"pid":(\d+),')


class Owners:
    """Are the frames of each stack those of the program or library that its text names? own: the function that
    every stack of a caller has, by the name of the caller."""

    def __init__(self, own, others):
        self.own, self.others = own, re.compile(others)
        self.named, self.unnamed, self.wrong = dict.fromkeys(own, 0), dict.fromkeys(own, 0), []

    def take(self, line):
        text = TEXT.search(line)
        if not text:
            self.wrong.append(f"no text: {line[:300]}")
            return
        caller = text[1].decode()
        symbols = [symbol.decode() for symbol in SYMBOLS.findall(line)]
        if PID.search(line)[1] != text[2]:
            self.wrong.append(f"the pid is not {text[2].decode()}: {line[:300]}")
        foreign = [each for each in symbols if self.others.match(each) and not each.startswith(self.own[caller][1])]
        if foreign:
            self.wrong.append(f"the stack of '{text[0][-60:].decode()}' has {foreign}")
        (self.named if self.own[caller][0] in symbols else self.unnamed)[caller] += 1

    def problems(self, run):
        """Without a record of a mapping, which is said, a stack may be wrong."""
        if not self.wrong or any("mapping record" in text for _, text in run.said):
            return []
        return [f"{len(self.wrong)} wrong stacks", *self.wrong[:3]]

    def note(self):
        return "stacks with names: " + ", ".join(
            f"{caller} {self.named[caller]} of {self.named[caller] + self.unnamed[caller]}" for caller in self.own)


def deleted_files(run):
    most = max((deleted for _, _, _, deleted in run.samples), default=0)
    return [f"{most} deleted files are open, expected at most {MOST_DELETED_FILES}"] if most > MOST_DELETED_FILES else []


def farm(work, seconds, findings):
    """A test farm: short-lived processes, followed from the first instruction."""
    owners = Owners({**{letter: (f"short_{letter}_leaf", f"short_{letter}_") for letter in "abc"},
                     "farm": ("farm_leaf", "farm_leaf")}, r"short_|farm_leaf")
    run, records, counts = watch_command(work, seconds, ["--follow", "--stack", *ARGUMENTS], CALL,
                                         ["./soak-farm", seconds, 40, "."], Records(owners.take))
    findings.expect_complete(records, counts["calls"])
    findings.expect("processes that have called", counts["started"], counts["processes"])
    findings.problems.extend(owners.problems(run))
    findings.problems += [f"no stack of '{each}' has names" for each in ("a", "b", "farm") if not owners.named[each]]
    findings.problems.extend(deleted_files(run))
    findings.measure("processes that end soon, `--follow --stack`", run, records.hits, "files")
    findings.notes.append(f"{counts['processes']} processes; {owners.note()}")


PLUGINS = {letter: (f"plugin_{letter}_leaf", f"plugin_{letter}_") for letter in "ab"}


def plugins(work, seconds, findings, how="temporary", rate=30):
    """Libraries that are loaded from temporary files for one call."""
    owners = Owners(PLUGINS, r"plugin_[ab]_")
    workload = Workload(work, "soak-plugins", how, seconds, rate, ".")
    run = Attach(work, "-j", *LIMIT, "-p", workload.pid, "--stack", *ARGUMENTS, *CALL, reader=Records(owners.take))
    run.wait_attached()
    workload.begin()
    counts = workload.counts(seconds)
    records = run.end()
    findings.expect_complete(records, counts["calls"])
    findings.problems.extend(owners.problems(run))
    if how == "temporary":
        findings.problems += [f"no stack of '{each}' has names" for each in PLUGINS if not owners.named[each]]
    findings.problems.extend(deleted_files(run))
    findings.measure(f"libraries, {how}, `--stack`", run, records.hits, "files")
    findings.notes.append(f"{counts['started']} libraries, {counts['same-address']} at the address of another; {owners.note()}")


def replaced_plugins(work, seconds, findings):
    """Each call comes from a library that is gone when its stack is unwound; another one has replaced it."""
    plugins(work, seconds, findings, "replaced", 30)


class Depths:
    """Is each stack the one that its text describes? Functions by the bits of the text, the innermost first."""

    def __init__(self):
        self.wrong, self.right = [], 0

    def take(self, line):
        bits = re.search(rb'"value":"([01]+)"', line)[1].decode()
        frames = [symbol.decode() for symbol in SYMBOLS.findall(line) if symbol in (b"stack_zero", b"stack_one")]
        if frames == [f"stack_{'one' if bit == '1' else 'zero'}" for bit in reversed(bits)]:
            self.right += 1
        else:
            self.wrong.append(f"{bits}: {frames}")


def deep_stacks(work, seconds, findings):
    """Stacks of ever other functions."""
    depths = Depths()
    run, records, counts = watch_command(work, seconds, ["--stack", *ARGUMENTS], CALL,
                                         ["./soak-calls", "stacks", seconds, 100, 4], Records(depths.take))
    findings.expect_complete(records, counts["calls"])
    findings.problems += depths.wrong[:3]
    findings.expect("right stacks", records.events, depths.right)
    findings.measure("stacks that differ, `--stack`", run, records.hits)


# --- calls ----------------------------------------------------------------------------------------

def leaving_threads(work, seconds, findings):
    """More fibers and threads leave calls without a return than can be remembered."""
    returned = []
    run, records, counts = watch_command(
        work, seconds, ["--latency", "--args", "id:s64"], ("./soak-leave", "soak_request"),
        ["./soak-leave", seconds, 2000, 70000],
        Records(lambda line: returned.append(int(re.search(rb'"name":"id","type":"s64","value":(\d+)', line)[1]))))
    summary = records.one("summary")
    findings.expect_complete(records, counts["calls"], also=summary["open"])
    # Room is made in the table while the run goes on; every second thread returns.
    late = range((counts["started"] * 3 // 4 + 1) // 2 * 2, counts["started"], 2)
    missing = len({*late} - {*returned})
    findings.problems.extend([f"of the last {len(late)} calls that returned {missing} are not events: {records.lost}"]
                    if missing else [])
    findings.measure("threads that end inside a call, `--latency`", run, records.hits)
    findings.notes.append(f"{counts['calls'] - counts['returned']} calls without a return, {counts['started']} threads")


GRAPH = ("./soak-calls", "graph_*")


def graph(work, seconds, findings):
    """Deep and wide call graphs of several threads."""
    run, records, counts = watch_command(work, seconds, ["--graph", "--report"], GRAPH,
                                         ["./soak-calls", "graph", seconds, 100, 3])
    expected = {name: number for name, number in counts.items() if name.startswith("graph_")}
    calls = sum(expected.values())
    findings.problems += records.broken[:5]
    lost = sum(records.lost.values())
    findings.expect("entries and returns", 2 * calls, records.hits)
    findings.expect("events + lost", 2 * calls, records.events + lost)
    if not lost:
        findings.expect("calls of each function", expected,
                        {each["symbol"]: each["calls"] for each in records.others["call_summary"]})
        callees = {}
        for edge in records.others["call_edge"]:
            callees[edge["callee"]] = callees.get(edge["callee"], 0) + edge["calls"]
        findings.expect("calls by their callers", expected, callees)
    findings.measure("deep and wide graphs, `--graph --report`", run, records.hits)


def slow_readers(work, seconds, findings):
    """The highest rate there is, beside readers that are too slow for it."""
    over = []

    def pause():
        if not over:
            time.sleep(0.002)

    workload = Workload(work, "soak-calls", "distinct", seconds, 0, 1, 80000)
    json_run = Attach(work, "-j", *LIMIT, "-p", workload.pid, *ARGUMENTS, *CALL, pause=pause)
    text_run = Attach(work, *LIMIT, "-p", workload.pid, *ARGUMENTS, *CALL, reader=Lines(), pause=pause)
    for run in (json_run, text_run):
        run.wait_attached()
    workload.begin()
    counts = workload.counts(seconds)
    ended = time.monotonic()
    over.append(True)
    records, lines = json_run.end(), text_run.end()
    findings.expect_complete(records, counts["calls"])
    if not records.lost:
        findings.problems.append("the readers were not too slow")
    closing = [re.search(r"^(\d+) events in [^,]*, (\d+) lost", text) for _, text in text_run.said]
    events, lost = next((int(found[1]), int(found[2])) for found in closing if found)
    findings.expect("lines of text", events, lines.events)
    findings.expect("events + lost of text", counts["calls"], events + lost)
    warned = [text for time_said, text in text_run.said if time_said < ended and "lost" in text]
    findings.problems.extend([
        *([] if lines.missing == lost else [f"{lost} events were lost, lines of the text say {lines.missing}"]),
        *([] if warned or not lost else ["no warning before the end of the run"]),
        *([f"{len(warned)} warnings in {seconds} s"] if len(warned) > 2 + seconds / 60 else [])])
    findings.measure("readers that are too slow, JSON", json_run, records.hits)
    findings.measure("readers that are too slow, text", text_run, events + lost, lost=lost)
    findings.notes.append(f"{records.events} events, {sum(records.lost.values())} lost")


# --- sums -----------------------------------------------------------------------------------------

def keys(work, seconds, findings):
    """Counts by values, whole and in intervals, beside a histogram of all calls."""
    workload = Workload(work, "soak-calls", "keys", seconds, 2000, 3)
    by = ("--count", "--by", "text", *ARGUMENTS, *CALL)
    runs = {"`--count --by`": Attach(work, "-j", *LIMIT, "-p", workload.pid, *by),
            "`--by --interval`": Attach(work, "-j", *LIMIT, "-p", workload.pid, "--interval", "500ms", *by),
            "`--histogram`": Attach(work, "-j", *LIMIT, "-p", workload.pid, "--histogram", "--latency", *CALL)}
    for run in runs.values():
        run.wait_attached()
    workload.begin()
    counts = workload.counts(seconds)
    expected = {name: number for name, number in counts.items() if name.startswith("key-")}
    for name, run in runs.items():
        records = run.end()
        if name == "`--histogram`":
            histogram = records.one("histogram")
            findings.expect("calls in the histogram", counts["calls"], histogram["count"])
            findings.expect("calls in its buckets", counts["calls"], sum(each["count"] for each in histogram["buckets"]))
        else:
            found = {}
            for each in records.others["count"]:
                key = each["by"][0]["value"]
                found[key] = found.get(key, 0) + each["count"]
            findings.expect(f"{name}: counts of each key", expected, found)
            findings.expect(f"{name}: hits", counts["calls"], records.hits)
        findings.expect(f"{name}: lost", {}, records.lost)
        findings.measure(f"50 keys, {name}", run, counts["calls"])


class Tables(Records):
    """Sums up the rows of a long table as they come."""

    rows = total = 0
    times = frozenset()

    def take(self, line):
        if not line.startswith(b'{"type":"count"'):
            super().take(line)
            return
        row = json.loads(line)
        self.rows += 1
        self.total += row["count"]
        self.times |= {row["time_ns"]}


def full_table(work, seconds, findings):
    """More keys than a table holds: those that it has are printed, the rest is counted."""
    workload = Workload(work, "soak-calls", "distinct", seconds, 5000, 1, 70000)
    run = Attach(work, "-j", *LIMIT, "-p", workload.pid, "--count", "--by", "text", "--interval", "1s", "--top", "100",
                 *ARGUMENTS, *CALL, reader=Tables())
    whole = Attach(work, "-j", *LIMIT, "-p", workload.pid, "--count", "--by", "text", *ARGUMENTS, *CALL, reader=Tables())
    run.wait_attached()
    whole.wait_attached()
    workload.begin()
    calls = workload.counts(seconds)["calls"]
    until = time.monotonic()
    records, tables = run.end(), whole.end()
    for each in (records, tables):
        findings.expect("hits", calls, each.hits)
    findings.expect("counted + lost", calls, tables.total + sum(tables.lost.values()))
    findings.problems.extend([] if len(records.times) >= max(1, seconds / 20) else
                    [f"{len(records.times)} tables in {seconds} s with --interval 1s"])
    findings.measure("keys that are always new, `--by --interval --top`", run, records.hits, until=until,
                     memory_tolerance=TABLE_TOLERANCE)
    findings.measure("keys that are always new, `--by`", whole, tables.hits, until=until)
    findings.notes.append(f"{tables.rows} rows of {calls} keys; {sum(tables.lost.values())} lost")


# --- runs beside each other, and how they end -----------------------------------------------------

def instances(work, seconds, findings):
    """Runs that stay, one of them stopped at times, beside others that end by a signal, a limit, and without a reader."""
    workload = Workload(work, "soak-calls", "distinct", seconds, 500, 2)
    pid = ("-p", workload.pid)
    staying = {"events": Attach(work, "-j", *LIMIT, *pid, *ARGUMENTS, *CALL),
               "`--stack`": Attach(work, "-j", *LIMIT, *pid, "--stack", *CALL),
               "`--latency`": Attach(work, "-j", *LIMIT, *pid, "--latency", *CALL),
               "`--mechanism perf`": Attach(work, "-j", *LIMIT, *pid, "--mechanism", "perf", *CALL),
               "`--mechanism tracefs`": Attach(work, "-j", *LIMIT, *pid, "--mechanism", "tracefs", *CALL),
               "`--count`": Attach(work, "-j", *LIMIT, *pid, "--count", *CALL)}
    for run in staying.values():
        run.wait_attached()
    workload.begin()
    started = time.monotonic()
    ends = itertools.cycle([end_by_signal, end_by_limit, end_by_reader, end_by_kill])
    gone = 0
    while time.monotonic() < started + seconds - 1:
        staying["events"].signal(signal.SIGSTOP)
        next(ends)(work, workload, findings)
        staying["events"].signal(signal.SIGCONT)
        time.sleep(0.2)
        gone += 1
    counts = workload.counts(seconds)
    for name, run in staying.items():
        records = run.end()
        if name == "`--count`":
            findings.expect("counted", counts["calls"], records.one("count")["count"])
            findings.expect("hits", counts["calls"], records.hits)
        else:
            findings.expect_complete(records, counts["calls"], also=records.one("summary")["open"] or 0)
        findings.measure(f"beside others, {name}", run, records.hits)
    findings.notes.append(f"{gone} runs came and went")


OBJECT = re.compile(rb'"value":"object:(\d+):(\d+)"')


class Sequences:
    """The calls that a run has seen of each thread have no gap."""

    def __init__(self):
        self.first, self.last, self.count = {}, {}, {}

    def take(self, line):
        thread, number = map(int, OBJECT.search(line).groups())
        self.first.setdefault(thread, number)
        self.last[thread] = number
        self.count[thread] = self.count.get(thread, 0) + 1

    def missing(self):
        return sum(self.last[each] - self.first[each] + 1 - self.count[each] for each in self.first)


def short_run(work, workload, *options):
    sequences = Sequences()
    run = Attach(work, "-j", "-p", workload.pid, *ARGUMENTS, *options, *CALL, reader=Records(sequences.take))
    run.wait_attached()
    return run, sequences


def expect_sequence(findings, records, sequences):
    findings.expect("hits of a short run", records.hits, records.events + sum(records.lost.values()))
    findings.expect("calls missing in a short run", 0, max(0, sequences.missing() - sum(records.lost.values())))
    findings.expect("a short run detached cleanly", True, records.one("summary")["detached_cleanly"])


def end_by_signal(work, workload, findings):
    run, sequences = short_run(work, workload, *LIMIT)
    time.sleep(0.2)
    run.signal(signal.SIGTERM)
    expect_sequence(findings, run.end(), sequences)


def end_by_limit(work, workload, findings):
    run, sequences = short_run(work, workload, "-d", "200ms")
    expect_sequence(findings, run.end(), sequences)


def end_by_reader(work, workload, _):
    run, _ = short_run(work, workload, *LIMIT)
    time.sleep(0.1)
    run.stop_reading()
    run.end()


def end_by_kill(work, workload, _):
    run, _ = short_run(work, workload, *LIMIT)
    time.sleep(0.1)
    run.signal(signal.SIGKILL)
    run.end(status=-signal.SIGKILL)


def ending_commands(work, seconds, findings):
    """One command after the other, each of them with a run of its own."""
    ended = time.monotonic() + seconds
    runs = hits = 0
    cpu = 0.0
    while time.monotonic() < ended:
        (work.folder / "counters").unlink(missing_ok=True)
        run, records, counts = watch_command(work, 1, ARGUMENTS, CALL, ["./soak-calls", "keys", 0.1, 500, 2])
        findings.expect_complete(records, counts["calls"])
        findings.expect("status of the command", 0, records.one("summary")["command_exit"])
        runs, hits, cpu = runs + 1, hits + records.hits, cpu + run.cpu
    findings.rows.append((f"{runs} commands, one after the other", hits, 0, None, None, cpu))


MEMORY_LIMIT, CPU_LIMIT, DESCRIPTOR_LIMIT = 128 << 20, 0.15, 64


def limits(work, seconds, findings):
    """A run that may take 128 MiB, a seventh of a CPU and 64 descriptors, of more events than it can print then."""
    group = ControlGroup(MEMORY_LIMIT, int(CPU_LIMIT * 100000), DESCRIPTOR_LIMIT)
    try:
        workload = Workload(work, "soak-calls", "distinct", seconds, 20000, 2)
        run = Attach(work, "-j", *LIMIT, "-p", workload.pid, "--stack", *ARGUMENTS, *CALL, prepare=group.enter)
        run.wait_attached()
        workload.begin()
        calls = workload.counts(seconds)["calls"]
        records = run.end()
    finally:
        group.remove()
    findings.expect_complete(records, calls)
    findings.measure(f"in {group.named}, `--stack`", run, records.hits)
    findings.notes.append(f"{records.events} events, {sum(records.lost.values())} lost")


# --- outputs --------------------------------------------------------------------------------------

def saved(work, seconds, findings):
    """A saved run has what the run has printed."""
    workload = Workload(work, "soak-calls", "keys", seconds, 500, 2)
    run = Attach(work, "-j", *LIMIT, "-p", workload.pid, "--stack", "--save", "run", *ARGUMENTS, *CALL)
    run.wait_attached()
    workload.begin()
    counts = workload.counts(seconds)
    records = run.end()
    findings.expect_complete(records, counts["calls"])
    again = Records()
    report = subprocess.Popen([work.uprobectl, "report", "-j", "run"], cwd=work.folder, env=work.environment,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    work.started.append(report)
    for line in report.stdout:
        again.take(line)
    findings.expect("status of report", 0, report.wait(PATIENCE))
    findings.expect("events of the saved run", records.events, again.events)
    findings.expect("losses of the saved run", records.lost, again.lost)
    findings.expect("hits of the saved run", records.hits, again.hits)
    findings.measure("`--save`, `--stack`", run, records.hits)


def full_disk(work, seconds, findings):
    """The file system of -o is full for a third of the time, and the file is moved away each second after that."""
    disk = work.folder / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", disk], check=True)
    try:
        full_disk_in(disk, work, seconds, findings)
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def full_disk_in(disk, work, seconds, findings):
    workload = Workload(work, "soak-calls", "distinct", seconds, 100, 2)
    run = Attach(work, "-j", *LIMIT, "-p", workload.pid, "-o", disk / "out", *ARGUMENTS, *CALL)
    run.wait_attached()
    workload.begin()
    time.sleep(seconds / 6)
    filler = disk / "filler"
    with filler.open("wb") as file:
        try:
            while True:
                file.write(bytes(4096))
                file.flush()
        except OSError:
            pass
        try:
            file.close()
        except OSError:
            pass
    time.sleep(seconds / 3)
    filler.unlink()
    time.sleep(seconds / 6)
    moved = []
    while workload.process.poll() is None and run.cpu is None and len(moved) < 5:
        moved.append(disk / f"out.{len(moved)}")
        (disk / "out").rename(moved[-1])
        run.signal(signal.SIGUSR1)
        time.sleep(1)
    calls = workload.counts(seconds)["calls"]
    try:
        run.end()
        records = Records()
        for file in [*moved, disk / "out"]:
            for line in file.read_bytes().splitlines(keepends=True):
                records.take(line)
        judged = Findings()
        judged.expect_complete(records, calls)
        found = judged.problems
    except (Problem, OSError) as problem:
        found = [str(problem)]
    findings.problems.extend(found)
    if not found:
        findings.measure("a full disk, `-o`", run, calls, lost=sum(records.lost.values()))


def clock(work, seconds, findings):
    """The times of events in text and JSON are those of the program, to the end."""
    differences, json_differences = [], []

    class JsonClocks(Records):
        def take(self, line):
            if line.startswith((b'{"type":"attached"', b'{"type":"clocks"')):
                read = json.loads(line)["clocks"]
                self.offset = read["realtime"] - read["monotonic"]
            super().take(line)

    def take_json(line):
        there = int(re.search(rb'"type":"str","value":"(\d+)"', line)[1]) * 1000
        json_differences.append((int(re.search(rb'"time_ns":(\d+)', line)[1]) + json_clocks.offset - there) / 1e9)

    json_clocks = JsonClocks(take_json)

    class Clocks(Lines):
        def take(self, line):
            super().take(line)
            found = re.match(rb'(\d\d):(\d\d):(\d\d\.\d+)\t.*text="(\d+)"', line)
            if found:
                there = int(found[4]) / 1e6
                day = time.localtime(there)
                shown = int(found[1]) * 3600 + int(found[2]) * 60 + float(found[3])
                read = day.tm_hour * 3600 + day.tm_min * 60 + day.tm_sec + there % 1
                differences.append((shown - read + 43200) % 86400 - 43200)

    workload = Workload(work, "soak-calls", "clock", seconds, 100)
    text = Attach(work, *LIMIT, "-p", workload.pid, *ARGUMENTS, *CALL, reader=Clocks())
    other = Attach(work, "-j", *LIMIT, "-p", workload.pid, *ARGUMENTS, *CALL, reader=json_clocks)
    text.wait_attached()
    other.wait_attached()
    workload.begin()
    calls = workload.counts(seconds)["calls"]
    lines, records = text.end(), other.end()
    findings.expect("lines", calls, lines.events)
    findings.expect_complete(records, calls)
    for found in (differences, json_differences):
        findings.expect("times", calls, len(found))
        middle = [statistics.median(found[at:at + 100]) for at in range(0, len(found) - 99, 100)]
        findings.problems.extend([f"a difference of {each:.3f} s" for each in middle if abs(each) > 0.05][:3])
    findings.measure("100 events a second, text", text, calls, lost=calls - lines.events)
    findings.notes.append(f"TIME is {statistics.median(differences) * 1e6:.0f} us after the program's own reading")


# Each takes a share of the time.
SCENARIOS = [farm, plugins, replaced_plugins, deep_stacks, leaving_threads, graph, slow_readers, keys, full_table,
             instances, ending_commands, limits, saved, full_disk, clock]
