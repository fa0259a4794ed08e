# SPDX-License-Identifier: Apache-2.0
"""Published BPF objects of the corpus, and the program with the functions that they are for (known_calls.c)."""

import json
import os
import platform
import shutil
import signal
import subprocess
import tarfile
from pathlib import Path

SDT = Path(__file__).resolve().parents[2] / "fixtures/workload"
LIMIT = 120  # seconds for any step

# One function with the names of two versions, as the selftests of Linux have it.
LIBRARY = """
__attribute__((noinline, visibility("default"))) int same_offset(void) { return 7; }
__asm__(".symver same_offset, urandlib_api_sameoffset@LIBURANDOM_READ_1.0.0");
extern __typeof(same_offset) current __attribute__((alias("same_offset")));
__asm__(".symver current, urandlib_api_sameoffset@@LIBURANDOM_READ_2.0.0");
"""
VERSIONS = "LIBURANDOM_READ_1.0.0 { local: *; }; LIBURANDOM_READ_2.0.0 {} LIBURANDOM_READ_1.0.0;"
# Where sections of objects expect programs. The shell is known by its name.
PROGRAMS = ["known", "bash", "victim", "target", "file_access_target", "go-server-http/main", "examples/btf-base"]


def reason_to_skip():
    if os.geteuid() != 0:
        return "only root attaches"
    if not os.environ.get("UPROBECTL_CORPUS"):
        return "UPROBECTL_CORPUS is not set"
    if platform.machine() != "x86_64":
        return "the objects are for x86-64"
    return None


def prepare(source):
    """In the current folder: the objects, and the programs of known_calls.c."""
    with tarfile.open(Path(os.environ["UPROBECTL_CORPUS"]) / "bpf/objects.tar.xz") as archive:
        archive.extractall("objects")
    Path("library.c").write_text(LIBRARY, encoding="ascii")
    Path("versions").write_text(VERSIONS, encoding="ascii")
    for command in (["-O1", "-fPIC", "-shared", "-Wl,--version-script=versions", "library.c", "-o", "liburandom_read.so"],
                    ["-O1", "-g", "-fno-omit-frame-pointer", "-no-pie", "-Wl,-rpath,$ORIGIN:$ORIGIN/..",
                     "-I", str(SDT), source, "./liburandom_read.so", "-o", "known"]):
        subprocess.run(["cc", *command], check=True, timeout=LIMIT)
    for name in PROGRAMS[1:]:
        Path(name).parent.mkdir(exist_ok=True)
        shutil.copy("known", name)


def symbol_value(file, name):
    text = subprocess.run(["readelf", "-sW", file], capture_output=True, text=True, check=True, timeout=LIMIT).stdout
    return next(int(words[1], 16) for words in map(str.split, text.splitlines()) if len(words) > 7 and words[7] == name)


class Calls:
    """The program, stopped before its calls."""

    def __init__(self, program, *words):
        # The same addresses in each run.
        self.process = subprocess.Popen(["setarch", "-R", "./" + program, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.pid = self.process.pid
        # Records are in one order, and values of one CPU have all calls.
        os.sched_setaffinity(self.pid, {min(os.sched_getaffinity(0))})
        self._await(b"ready\n")

    def _await(self, line):
        if self.process.stdout.readline() != line:
            raise RuntimeError(f"the program has ended with {self.process.wait(LIMIT)}")

    def make(self):
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()
        self._await(b"done\n")

    def end(self):
        self.process.stdin.close()
        if self.process.wait(LIMIT) != 0:
            raise RuntimeError(f"the program has ended with {self.process.returncode}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def run_beside(calls, command, is_ready, stop):
    """The JSON records of a command that is started before the calls and stopped after them, and its stderr."""
    with open("stderr", "w+", encoding="utf-8") as errors, subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True) as process:
        try:
            records = []
            for line in process.stdout:
                records.append(json.loads(line))
                if is_ready(records[-1]):
                    break
            else:
                return None, Path("stderr").read_text(encoding="utf-8")
            calls.make()
            stop(process)
            process.wait(LIMIT)
            records += map(json.loads, process.stdout)
            return records, Path("stderr").read_text(encoding="utf-8")
        finally:
            process.kill()


def attach(uprobectl, calls, *words):
    """What `attach` (or `usdt attach`) writes of the calls; None if it has failed, and its messages."""
    words = list(words)
    at = words.index("attach") + 1 if "attach" in words else 0
    command = [uprobectl, *(words[:at] or ["attach"]), "-j", "-d", str(LIMIT), "-p", str(calls.pid), *words[at:]]
    return run_beside(calls, command, lambda record: record["type"] == "attached",
                      lambda process: process.send_signal(signal.SIGINT))


def load(loader, calls, file, *words):
    """What the loader that is written with libbpf prints of them."""
    return run_beside(calls, [loader, file, str(calls.pid), *words], lambda record: record["type"] == "times",
                      lambda process: process.stdin.close())
