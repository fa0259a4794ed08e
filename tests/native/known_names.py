#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""known_names.py UPROBECTL FIXTURES
Values that a prototype or the records of a BPF program name: --args, --if and --by find them without debug information,
a text that ends where a number says is compared as it is shown, and what records can never have is an error before the
run. Programs are those that the test starts. Needs root. Prints TAP."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap

UPROBECTL = str(Path(sys.argv[1]).resolve())
FIXTURES = Path(sys.argv[2]).resolve()
TAP = Tap()
LIMIT = 60  # seconds

PROGRAM = r"""
__attribute__((noinline, noclone)) int make(int flags, int mode) {
  __asm__ volatile("" ::"r"(flags), "r"(mode) : "memory");
  return 1;
}
__attribute__((noinline, noclone)) int put(const char* text, int size, int kind) {
  __asm__ volatile("" ::"r"(text), "r"(size), "r"(kind) : "memory");
  return 1;
}
__attribute__((noinline, noclone)) int judge(int result) {
  __asm__ volatile("" : "+r"(result));
  return result;
}
int main(void) {
  for (int i = 0; i < 2; i++) judge(-2147483647 - 1 + i);
  for (int i = -6; i < -4; i++) judge(i);
  for (int i = 0; i < 3; i++) judge(2147483647 - i);
  make(1, 0644);
  make(0x40, 0644);
  put("abcdef", 3, 1);
  put("abcdef", 6, 2);
  put("abcdef", -1, 3);
  put("ab", 3, 4);
  put("", 0, 5);
  put("abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz", 70, 6);
  return 0;
}
"""
PROTOTYPES = """library put-app
put(text:str[..size], size:s32, kind:s32) = s32
make(flags:x32, mode:oct if flags&0x40) = s32
judge(result:s32) = s32 fails < -5
"""
# What is shown of each kind.
TEXTS = {1: "abc", 2: "abcdef", 3: "abcdef", 4: "ab", 5: "",
         6: "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqr"}


def run(*words):
    return subprocess.run([UPROBECTL, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT,
                          check=False)


def attach(*options):
    return run("attach", "-j", "-d", "20s", "--prototypes", "prototypes", *options, "./put-app", "put", "--", "./put-app")


def events(done):
    return [record for record in map(json.loads, done.stdout.splitlines()) if record["type"] == "event"]


def values(event):
    return {each["name"]: each["value"] for each in event["arguments"]}


def check_args(names):
    done = attach("--args", names)
    if done.returncode != 0:
        return [done.stderr]
    wanted = [{name: TEXTS[kind] if name == "text" else kind for name in names.split(",")} for kind in TEXTS]
    shown = [values(event) for event in events(done)]
    return [] if shown == wanted else [f"{shown}, expected {wanted}"]


def check_text(condition, holds):
    """The events of a condition, in the run and in the report of a run without it."""
    wanted = [kind for kind, text in TEXTS.items() if holds(text)]
    done = attach("--args", "kind", "--if", condition)
    live = [values(event)["kind"] for event in events(done)] if done.returncode == 0 else done.stderr
    saved = run("report", "-j", "--if", condition, "saved")
    again = [values(event)["kind"] for event in events(saved)] if saved.returncode == 0 else saved.stderr
    return [f"{how} {found}, expected {wanted}" for how, found in (("live", live), ("saved", again)) if found != wanted]


def check_names():
    Path("put.c").write_text(PROGRAM, encoding="ascii")
    Path("prototypes").write_text(PROTOTYPES, encoding="ascii")
    subprocess.run(["cc", "-O1", "-o", "put-app", "put.c"], check=True, timeout=LIMIT)
    for names in ("text", "kind", "kind,text"):
        TAP.check(f"--args {names}: parameters of a prototype need no type", check_args(names))
    done = attach("--args", "nosuch")
    said = done.stderr
    TAP.check("--args with another name lists the parameters",
              [] if done.returncode == 1 and "its known arguments are: text, size, kind" in said else [said])
    done = run("attach", "-d", "20s", "--prototypes", "prototypes", "--args", "mode", "./put-app", "make", "--", "./put-app")
    TAP.check("a parameter that is not always passed is listed after what says so",
              [] if done.returncode != 0 and "list both: flags,mode" in done.stderr else [done.stderr])
    done = run("attach", "-j", "-d", "20s", "--prototypes", "prototypes", "--args", "flags,mode", "./put-app", "make", "--",
               "./put-app")
    shown = [values(event) for event in events(done)]
    TAP.check("it is shown if it is passed",
              [] if [set(each) for each in shown] == [{"flags"}, {"flags", "mode"}] else [f"{shown} {done.stderr}"])
    attach("--args", "kind,text", "--save", "saved")
    conditions = {
        'text == "abc"': lambda text: text == "abc", 'text == "abcdef"': lambda text: text == "abcdef",
        'text ^= "abcd"': lambda text: text.startswith("abcd"), 'text != "abc"': lambda text: text != "abc",
        'text == ""': lambda text: text == "", 'text $= "qr"': lambda text: text.endswith("qr"),
        'text in {"ab", "abc"}': lambda text: text in ("ab", "abc"),
    }
    for condition, holds in conditions.items():
        TAP.check(f"--if '{condition}' compares what is shown", check_text(condition, holds))


def judge(*options):
    done = run("attach", "-j", "-d", "20s", "--prototypes", "prototypes", *options, "./put-app", "judge", "--", "./put-app")
    return [record for record in map(json.loads, done.stdout.splitlines())], done.stderr


def check_failures():
    """judge() returns its argument: the two smallest, -6 and -5, and the three largest integers."""
    for condition, expected in (("failed", [-2147483648, -2147483647, -6]), ("!failed", [-5, 2147483647, 2147483646, 2147483645])):
        records, said = judge("--latency", "--if", condition)
        shown = [values(record)["result"] for record in records if record["type"] == "event"]
        TAP.check(f"--if {condition}: integers are less than a negative one", [] if shown == expected else [f"{shown} {said}"])
    records, said = judge("--latency")
    failed = [record.get("failed", False) for record in records if record["type"] == "event"]
    TAP.check("events have failed if they are less", [] if failed == [True] * 3 + [False] * 4 else [f"{failed} {said}"])
    records, said = judge("--count", "--by", "failed")
    counts = {record["by"][0]["value"]: record["count"] for record in records if record["type"] == "count"}
    TAP.check("calls are counted by it", [] if counts == {True: 3, False: 4} else [f"{counts} {said}"])


def record_run(*options):
    workload = str(FIXTURES / "workload")
    return run("attach", "-d", "20s", "--object", str(FIXTURES / "results.bpf.o"), *options, workload, "work_six", "--",
               workload, "--calls", "3")


def check_refusal(expected, *options):
    done = record_run(*options)
    said = done.stderr
    return [] if done.returncode == 1 and all(text in said for text in expected) else [f"status {done.returncode}: {said}"]


def check_records():
    # The types of all variables of the program but for keys of maps: each could be a record.
    missing = "none of the records has a member"
    members = "their members: slots, count, when, pid, step, argument, address, name, detail, end"
    refusals = {
        "a member that no record has": ([f"{missing} 'argumnt'", "did you mean 'argument'?", members],
                                        "--if", "argumnt == 1"),
        "also beside one that it has": ([f"{missing} 'nothing'", members], "--if", "argument == 1 || nothing"),
        "a member of a member": (["a structure has no member 'bigg'", "its members: small, rest"], "--if", "detail.bigg == 1"),
        "an element of bytes": (["has no elements"], "--if", "name[9] == 1"),
        "a value to count by": (["--by 'stp'", f"{missing} 'stp'"], "--count", "--by", "stp"),
        "a value to measure": (["--measure 'argumnt'", f"{missing} 'argumnt'"],
                               "--count", "--by", "step", "--measure", "argumnt"),
        "--by without the buffer": (["--by needs records", "add --map with one of: sent"],
                                    "--count", "--by", "step", "--map", "recent"),
        "--if without the buffer": (["--if needs records", "add --map with one of: sent"],
                                    "--if", "argument == 1", "--map", "recent"),
    }
    for name, (expected, *options) in refusals.items():
        TAP.check(f"{name} is an error before the run", check_refusal(expected, *options))
    done = record_run("--count", "--by", "step", "--map", "recent", "--map", "sent")
    TAP.check("counted records are said", [] if done.returncode == 0 and "\n3 records counted in " in "\n" + done.stderr
              and "0 events" not in done.stderr else [done.stderr])


def main():
    if os.geteuid() != 0:
        TAP.skip("names of known values", "only root attaches")
        TAP.done()
        return
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        check_names()
        check_failures()
        check_records()
        os.chdir("/")
    TAP.done()


main()
