# SPDX-License-Identifier: Apache-2.0
"""Parts of the soak test: programs that count their own calls, runs of `uprobectl attach` beside them, and
what a run takes meanwhile (memory, descriptors, CPU time)."""

import contextlib
import json
import os
import re
import resource
import signal
import subprocess
import threading
import time
from pathlib import Path

# A busy machine is slow: only a run that hangs takes so long to begin or to end.
PATIENCE = 180 * float(os.environ.get("UPROBECTL_PATIENCE", "1"))
# What a run may take more in the second half of its time than in the first. Of an output that is blocked 4 MiB
# wait, in a buffer that doubles as it grows.
MEMORY_TOLERANCE = 12 << 20
DESCRIPTOR_TOLERANCE = 16

TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


class Problem(Exception):
    """Something that a scenario cannot go on with."""


class Workload:
    """A program of fixtures/soak, which begins on request, and prints its counts."""

    def __init__(self, work, *argv, prepare=None):
        self.process = subprocess.Popen([work.folder / argv[0], *map(str, argv[1:])], cwd=work.folder,
                                        env=work.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        preexec_fn=prepare)
        work.started.append(self.process)
        self.pid = self.process.pid

    def begin(self):
        self.process.stdin.close()
        self.process.stdin = None

    def counts(self, seconds):
        text, _ = self.process.communicate(timeout=seconds + PATIENCE)
        if self.process.returncode != 0:
            raise Problem(f"the workload ends with status {self.process.returncode}")
        return counts_of(text.decode())


def counts_of(text):
    return {name: int(number) for name, number in re.findall(r"(?m)^(\S+) (\d+)$", text)}


class Records:
    """JSON Lines of a run, taken one by one. on_event: called with the bytes of each event."""

    def __init__(self, on_event=None):
        self.events = 0
        self.lost = {}  # by reason
        self.others = {}  # the rest, by type
        self.on_event = on_event
        self.broken = []

    def take(self, line):
        if line.startswith(b'{"type":"event"') and line.endswith(b"}\n"):
            self.events += 1
            if self.on_event:
                self.on_event(line)
            return
        try:
            record = json.loads(line)
        except ValueError:
            self.broken.append(f"not a record: {line[:200]}")
            return
        if record["type"] == "lost":
            self.lost[record["reason"]] = self.lost.get(record["reason"], 0) + record["count"]
        else:
            self.others.setdefault(record["type"], []).append(record)

    def one(self, kind):
        records = self.others.get(kind, [])
        if len(records) != 1:
            raise Problem(f"{len(records)} records of type '{kind}'")
        return records[0]

    @property
    def hits(self):
        return sum(probe["hits"] for probe in self.others.get("probe", []))


class Lines:
    """Text of a run: lines of events, and those that say what happened between them (<lost>)."""

    def __init__(self):
        self.events = 0
        self.missing = 0
        self.others = []

    def take(self, line):
        columns = line.rstrip(b"\n").split(b"\t")
        if len(columns) < 6 or columns[4].startswith(b"<"):
            self.others.append(line.decode(errors="replace"))
        else:
            self.events += 1
        if len(columns) > 5 and columns[4] == b"<lost>":
            self.missing += int(columns[5].split()[0])


class Attach:
    """One run of `uprobectl attach`. reader: takes the lines of its stdout, as fast as it can or slower."""

    def __init__(self, work, *argv, reader=None, pause=None, prepare=None):
        self.work = work
        self.reader = reader or Records()
        self.pause = pause  # called before each block that is read
        self.closing = threading.Event()
        self.said = []
        self.samples = []
        self.cpu = None
        self.process = subprocess.Popen([work.uprobectl, "attach", *map(str, argv)], cwd=work.folder,
                                        env=work.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, preexec_fn=prepare)
        work.started.append(self.process)
        self.attached = threading.Event()
        self.threads = [threading.Thread(target=each, daemon=True) for each in (self._read, self._hear, self._watch)]
        for thread in self.threads:
            thread.start()

    def _read(self):
        while not self.closing.is_set():
            if self.pause:
                self.pause()
            line = self.process.stdout.readline()
            if not line:
                return
            self.reader.take(line)
        self.process.stdout.close()

    def _hear(self):
        for line in self.process.stderr:
            self.said.append((time.monotonic(), line.decode(errors="replace").rstrip("\n")))
            if b"probing " in line:
                self.attached.set()

    def _watch(self):
        status = f"/proc/{self.process.pid}"
        period = 0.1
        while True:
            if self.attached.is_set():
                try:
                    pages = int(Path(f"{status}/statm").read_text().split()[1])
                    links = [os.readlink(f"{status}/fd/{fd}") for fd in self._descriptors()]
                except OSError:
                    pages, links = 0, []
                if pages:
                    deleted = sum(link.endswith(" (deleted)") for link in links)
                    self.samples.append((time.monotonic(), pages * PAGE, len(links), deleted))
            # Its statistics are there until it is waited for.
            try:
                ended = os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:  # the scenario was given up
                return
            if ended is not None:
                fields = Path(f"{status}/stat").read_text().rpartition(") ")[2].split()
                self.cpu = (int(fields[11]) + int(fields[12])) / TICK
                return
            time.sleep(period)
            period = min(1.0, max(0.1, 0.005 * len(self.samples)))

    def _descriptors(self):
        for fd in os.listdir(f"/proc/{self.process.pid}/fd"):
            with contextlib.suppress(FileNotFoundError):
                os.readlink(f"/proc/{self.process.pid}/fd/{fd}")
                yield fd

    def wait_attached(self):
        deadline = time.monotonic() + PATIENCE
        while not self.attached.wait(0.05):
            if self.cpu is not None or time.monotonic() > deadline:
                raise Problem(f"nothing was attached: {self.messages()}")

    def signal(self, number):
        self.process.send_signal(number)

    def stop_reading(self):
        """The reader goes away: the next line is the last."""
        self.closing.set()

    def end(self, seconds=0, status=0):
        """Waits for the end of the run."""
        deadline = time.monotonic() + seconds + PATIENCE
        for thread in self.threads:
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                raise Problem(f"the run has not ended after {seconds + PATIENCE} s")
        if self.process.wait() != status:
            raise Problem(f"status {self.process.returncode} instead of {status}: {self.messages()}")
        return self.reader

    def messages(self):
        return "\n".join(text for _, text in self.said[-20:])

    # --- what it has taken ---

    def peak(self):
        return max((memory for _, memory, _, _ in self.samples), default=0)

    def descriptors(self):
        return max((count for _, _, count, _ in self.samples), default=0)

    def growth_problems(self, until=None, memory_tolerance=MEMORY_TOLERANCE):
        """A plateau: in the second half of its time a run takes no more than it did before. until: the end of that
        time, if the run is to sum up after it."""
        samples = [sample for sample in self.samples if until is None or sample[0] <= until]
        if len(samples) < 6:
            return [f"only {len(samples)} samples"]
        middle = (samples[0][0] + samples[-1][0]) / 2
        before = [sample for sample in samples if sample[0] <= middle]
        after = samples[len(before):]
        found = []
        memory, later = max(s[1] for s in before), max(s[1] for s in after)
        if later > memory + memory_tolerance:
            found.append(f"memory grows from {memory >> 10} to {later >> 10} KiB")
        descriptors, later = max(s[2] for s in before), max(s[2] for s in after)
        if later > descriptors + DESCRIPTOR_TOLERANCE:
            found.append(f"descriptors grow from {descriptors} to {later}")
        return found


def write_setting(path, value):
    """Of a kernel that has it: nothing is created."""
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, value.encode())
    finally:
        os.close(fd)


class ControlGroup:
    """A control group of our own with a limit of memory and CPU, as far as this machine lets us make one; else
    the limit of descriptors alone."""

    V2 = [("", [("memory.max", "{memory}"), ("cpu.max", "{quota} 100000")])]
    V1 = [("memory", [("memory.limit_in_bytes", "{memory}")]),
          ("cpu", [("cpu.cfs_period_us", "100000"), ("cpu.cfs_quota_us", "{quota}")])]

    def __init__(self, memory, quota, descriptors):
        self.folders, self.descriptors = [], descriptors
        for kinds in (self.V2, self.V1):
            try:
                self._make(kinds, memory, quota)
                break
            except OSError:
                self.remove()
        self.named = "a control group" if self.folders else "setrlimit"

    def _make(self, kinds, memory, quota):
        for controller, settings in kinds:
            folder = Path("/sys/fs/cgroup", controller, f"uprobectl-soak-{os.getpid()}")
            folder.mkdir()
            self.folders.append(folder)
            for name, value in settings:
                write_setting(folder / name, value.format(memory=memory, quota=quota))

    def enter(self):
        """In the child that is to be limited."""
        resource.setrlimit(resource.RLIMIT_NOFILE, (self.descriptors, self.descriptors))
        for folder in self.folders:
            write_setting(folder / "cgroup.procs", str(os.getpid()))

    def remove(self):
        for folder in self.folders:
            deadline = time.monotonic() + PATIENCE
            while folder.exists():
                try:
                    folder.rmdir()
                except OSError:  # until the kernel has let go of its last process
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.05)
        self.folders = []


class Workspace:
    """A folder of its own for a scenario, with copies of the programs: nobody else probes these files."""

    def __init__(self, folder, uprobectl, fixtures, suite):
        self.folder, self.uprobectl = folder, uprobectl
        self.started = []
        (folder / "tmp").mkdir(parents=True)
        for fixture in fixtures:
            # copyfile() would share the blocks, copy() the mode alone is not enough for a program.
            (folder / fixture.name).write_bytes(fixture.read_bytes())
            (folder / fixture.name).chmod(0o755)
        self.environment = {**os.environ, "TMPDIR": str(folder / "tmp"), "UPROBECTL_SUITE": str(suite)}

    def end_started(self):
        for process in self.started:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                process.wait()

    def left_files(self):
        return [f"left in the folder for temporary files: {each.name}" for each in (self.folder / "tmp").iterdir()]
