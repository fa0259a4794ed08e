#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""With few descriptors, processes or capabilities, little memory or stack, without /proc or /sys, or of
a damaged object a command says what is wrong, or works. Usage: scarce_resources.py UPROBECTL FIXTURES;
prints TAP.

Nothing is attached: what needs the kernel is asked for with --dry-run, or where it is refused.
"""

import itertools
import os
import random
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap

MIB = 1 << 20
NOBODY = 65534
SECONDS = 60
# The reasons that a user can act on.
VAGUE = ("internal error", "terminate called", "std::")


def commands(fixtures):
    workload = str(fixtures / "workload")
    return {
        "resolve": ["resolve", workload, "work_six"],
        "list-symbols": ["list-symbols", workload],
        "usdt list": ["usdt", "list", str(fixtures / "probes")],
        "attach --dry-run": ["attach", "--dry-run", "--return", workload, "work_*"],
        "attach --object": ["attach", "--dry-run", "--object", str(fixtures / "calls.bpf.o"), "--program-name", "count_multi",
                            workload, "work_six"],
        "attach -p NAME": ["attach", "-d", "10ms", "-p", "no-such-name", workload, "work_six"],
        "list-probes": ["list-probes"],
        "doctor": ["doctor"],
        "debug-unwind": ["debug-unwind", "/nonexistent"],
    }


def problems_of(words, what, limit=None, user=None, reason=None):
    """What is wrong with how the command ends: with status 1 and this reason, if one is given."""
    def prepare():
        if limit is not None:
            resource.setrlimit(*limit)
        if user is not None and os.geteuid() == 0:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)

    try:
        ended = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, timeout=SECONDS, preexec_fn=prepare, check=False)
    except subprocess.TimeoutExpired:
        return [f"{what}: no end after {SECONDS} s"]
    said = ended.stderr.decode(errors="replace")
    if ended.returncode not in (0, 1, 2) or any(word in said for word in VAGUE):
        return [f"{what}: status {ended.returncode}: {said.strip()[:300]}"]
    errors = sum("error: " in line for line in said.splitlines())
    if ended.returncode != 0 and errors != 1 and "doctor" not in words:
        return [f"{what}: status {ended.returncode} with {errors} errors: {said.strip()[:300]}"]
    if reason is not None and (ended.returncode != 1 or reason not in said):
        return [f"{what}: status {ended.returncode}, expected '{reason}': {said.strip()[:300]}"]
    # None of these conditions is a property of the kernel.
    if "this kernel" in said:
        return [f"{what}: the kernel is blamed: {said.strip()[:300]}"]
    return []


def mapped_size(program):
    """Bytes of its segments, which the kernel maps before the program can say anything."""
    lines = subprocess.run(["readelf", "-lW", program], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    return sum(int(line.split()[5], 16) for line in lines if line.split()[:1] == ["LOAD"])


def check_limits(tap, uprobectl, fixtures):
    """Below 3 descriptors nothing can be written."""
    own = -(-mapped_size(uprobectl) // MIB)
    for name, words in commands(fixtures).items():
        found = []
        for count in [*range(3, 24), 28, 34, 40, 50, 60]:
            found += problems_of([uprobectl, *words], f"{count} descriptors",
                                 (resource.RLIMIT_NOFILE, (count, count)), user=NOBODY)
        tap.check(f"{name}: few descriptors", found)
        found = []
        for size in (own + 1, own + 2, own + 4, own + 8, 32, 48, 64, 96, 128, 192):
            found += problems_of([uprobectl, *words], f"{size} MiB",
                                 (resource.RLIMIT_AS, (size * MIB, size * MIB)), user=NOBODY)
        tap.check(f"{name}: little memory", found)


def refused_commands(fixtures):
    """What would attach or load, on a program of ours."""
    workload = str(fixtures / "workload")
    attach = ["attach", "-d", "10ms"]
    return {
        "attach -- COMMAND": [*attach, workload, "work_six", "--", workload, "--calls", "1"],
        "attach --object": [*attach, "--object", str(fixtures / "calls.bpf.o"), "--program-name", "count_multi",
                            workload, "work_six", "--", workload, "--calls", "1"],
        "attach --follow": [*attach, "--follow", workload, "work_six", "--", workload, "--calls", "1"],
        "attach --stack": [*attach, "--stack", workload, "work_six", "--", workload, "--calls", "1"],
        "attach -p PID": [*attach, "-p", str(os.getpid()), workload, "work_six"],
    }


def check_descriptors(tap, uprobectl, fixtures):
    """What needs BPF asks for descriptors first: without them libbpf takes the kernel for an old one."""
    for name, words in refused_commands(fixtures).items():
        found = []
        for count in range(9, 40):
            found += problems_of([uprobectl, *words], f"{count} descriptors",
                                 (resource.RLIMIT_NOFILE, (count, count)), reason="too many open files")
        tap.check(f"{name}: too few descriptors", found)


def check_stack(tap, uprobectl, fixtures):
    """Less than 32 KiB some runs do not survive before main() begins."""
    found = []
    for size in (32, 48, 64, 128, 256, 480):
        found += problems_of([uprobectl, "resolve", str(fixtures / "workload"), "work_six"], f"{size} KiB of stack",
                             (resource.RLIMIT_STACK, (size << 10, size << 10)), reason="stack limit of")
    for name, words in commands(fixtures).items():
        found += problems_of([uprobectl, *words], name, (resource.RLIMIT_STACK, (512 << 10, 512 << 10)), user=NOBODY)
    tap.check("a small stack", found)


def check_processes(tap, uprobectl, fixtures):
    """No thread, no child. Root is not bound by the limit."""
    found = []
    # The program itself has so many functions that threads are asked for.
    with_threads = {"list-symbols with threads": ["list-symbols", uprobectl]}
    for name, words in (commands(fixtures) | with_threads).items():
        found += problems_of([uprobectl, *words], name, (resource.RLIMIT_NPROC, (1, 1)), user=NOBODY)
    tap.check("no more processes", found)


def check_data(tap, uprobectl, fixtures):
    """With less than 5 MiB the kernel cannot even map what the program begins with."""
    for name, words in commands(fixtures).items():
        found = []
        for size in (5, 6, 8, 16, 32):
            found += problems_of([uprobectl, *words], f"{size} MiB of data",
                                 (resource.RLIMIT_DATA, (size * MIB, size * MIB)), user=NOBODY)
        tap.check(f"{name}: little data", found)


# An empty file system over it, and what is said then.
HIDDEN = {
    "/proc": {name: "/proc is not mounted" for name in
              ("attach -- COMMAND", "attach --object", "attach --follow", "attach --stack", "attach -p PID")},
    "/sys": {"attach -- COMMAND": "sysfs", "attach --follow": "sysfs", "attach --stack": "sysfs"},
}


def check_mounts(tap, uprobectl, fixtures):
    if os.geteuid() != 0:
        for folder in HIDDEN:
            tap.skip(f"without {folder}", "not root")
        return
    plain = commands(fixtures)
    refused = refused_commands(fixtures)
    for folder, reasons in HIDDEN.items():
        def hidden(words, folder=folder):
            return ["unshare", "--mount", "sh", "-c", f'mount -t tmpfs none {folder} && exec "$@"', "sh", uprobectl, *words]
        found = []
        for name in ("resolve", "list-symbols", "usdt list", "attach --dry-run", "list-probes", "debug-unwind"):
            found += problems_of(hidden(plain[name]), name)
        for name, reason in reasons.items():
            found += problems_of(hidden(refused[name]), name, reason=reason)
        if folder == "/sys":
            found += problems_of(hidden(["load", str(fixtures / "calls.bpf.o"), "--pin", "/sys/fs/bpf/scarce"]),
                                 "load", reason="mount -t bpf")
        doctor = subprocess.run(hidden(["doctor"]), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                timeout=SECONDS, check=False)
        attach = [line for line in doctor.stdout.splitlines() if line.startswith("attach\tno\t")]
        if doctor.returncode != 1 or len(attach) != 1 or f"mount -t {'proc' if folder == '/proc' else 'sysfs'}" not in attach[0]:
            found.append(f"doctor: status {doctor.returncode}: {attach}")
        tap.check(f"without {folder}", found)


# linux/capability.h
CAPABILITIES = {"DAC_READ_SEARCH": 2, "SYS_PTRACE": 19, "SYS_ADMIN": 21, "PERFMON": 38, "BPF": 39}
# Each allows to attach, so it is not tried here.
ENOUGH = ({"SYS_ADMIN"}, {"PERFMON", "BPF"})


def check_capabilities(tap, uprobectl, fixtures):
    if os.geteuid() != 0:
        tap.skip("single capabilities and pairs", "not root")
        return
    refused = refused_commands(fixtures)
    plain = commands(fixtures)
    found = []
    sets = [set(names) for size in (0, 1, 2) for names in itertools.combinations(CAPABILITIES, size)]
    for names in sets:
        numbers = ",".join(str(CAPABILITIES[name]) for name in sorted(names)) or "-"
        as_user = [str(fixtures / "as-user"), str(NOBODY), numbers, uprobectl]
        what = "+".join(sorted(names)) or "none"
        for name in ("list-probes", "attach -p NAME", "usdt list"):
            found += problems_of([*as_user, *plain[name]], f"{what}: {name}")
        if any(names >= enough for enough in ENOUGH):
            continue
        for name in ("attach -- COMMAND", "attach --follow", "attach --stack", "attach --object"):
            found += problems_of([*as_user, *refused[name]], f"{what}: {name}", reason="CAP_BPF")
        doctor = subprocess.run([*as_user, "doctor"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                timeout=SECONDS, check=False)
        if doctor.returncode != 1 or "\nattach\tno\t" not in doctor.stdout:
            found.append(f"{what}: doctor: status {doctor.returncode}")
    tap.check("single capabilities and pairs", found)


FILTER = "a seccomp filter is in force"


def check_filter(tap, uprobectl, fixtures):
    """A real seccomp filter, as containers have them: bpf() or perf_event_open() are refused to root, too."""
    if os.geteuid() != 0:
        tap.skip("a seccomp filter", "not root")
        return
    refused = refused_commands(fixtures)
    found = []

    def doctor(denied):
        ended = subprocess.run([str(fixtures / "without-calls"), denied, uprobectl, "doctor"], timeout=SECONDS,
                               stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        return ended.returncode, {line.split("\t")[0]: line for line in ended.stdout.splitlines()}

    for denied in ("bpf", "bpf,perf_event_open"):
        without = [str(fixtures / "without-calls"), denied, uprobectl]
        for name, words in refused.items():
            found += problems_of([*without, *words], f"{denied}: {name}", reason=FILTER)
        found += problems_of([*without, "load", str(fixtures / "calls.bpf.o"), "--pin", "/sys/fs/bpf/scarce"],
                             f"{denied}: load", reason=FILTER)
        status, lines = doctor(denied)
        for name in ("bpf", "attach"):
            if not lines[name].startswith(f"{name}\tno\t") or FILTER not in lines[name] or \
                    "seccomp=unconfined" not in lines[name]:
                found.append(f"{denied}: doctor: {lines[name]}")
        if status != 1:
            found.append(f"{denied}: doctor: status {status}")
    # With bpf() alone uprobe_multi is left, where the kernel has it and the machine permits bpf() at all.
    status, lines = doctor("perf_event_open")
    if not lines["bpf"].startswith("bpf\tno\t"):
        can_multi = lines["mechanism_multi"].startswith("mechanism_multi\tyes")
        for name in ("mechanism_perf", "mechanism_perf-ioctl", "mechanism_tracefs"):
            if not lines[name].startswith(f"{name}\tno\t"):
                found.append(f"perf_event_open: doctor: {lines[name]}")
        if status != (0 if can_multi else 1):
            found.append(f"perf_event_open: doctor: status {status}: {lines['attach']}")
        workload = str(fixtures / "workload")
        found += problems_of([str(fixtures / "without-calls"), "perf_event_open", uprobectl, "attach", "-d", "10ms",
                              "--mechanism", "perf", workload, "work_six", "--", workload, "--calls", "1"],
                             "perf_event_open: attach --mechanism perf", reason=FILTER)
    tap.check("a seccomp filter", found)


def sections_of(data):
    """name -> (offset, size) of a 64-bit little-endian ELF file."""
    def number(at, size):
        return int.from_bytes(data[at:at + size], "little")
    headers, count, names = number(40, 8), number(60, 2), number(62, 2)
    rows = [(number(headers + 64 * i, 4), number(headers + 64 * i + 24, 8), number(headers + 64 * i + 32, 8))
            for i in range(count)]
    text = data[rows[names][1]:][:rows[names][2]]
    return {text[name:text.index(b"\0", name)].decode(): (offset, size) for name, offset, size in rows}


def mutated(data, chances):
    """Mostly numbers of the types and relocations: there lie the lengths and indexes that libbpf follows."""
    changed = bytearray(data)
    sections = sections_of(data)
    extents = [extent for name, extent in sections.items() if extent[1] >= 4 and
               (name in (".BTF", ".BTF.ext", ".symtab", ".maps") or name.startswith(".rel"))]
    for _ in range(chances.choice((1, 1, 2, 8))):
        offset, size = chances.choice(extents) if chances.random() < 0.9 else (0, len(data) - 4)
        at = offset + chances.randrange(size // 4) * 4
        value = chances.choice((0, 1, 2, 0xff, 0xffff, 0x7fffffff, 0xffffffff, 0x80000000,
                                chances.getrandbits(32), chances.randrange(64)))
        changed[at:at + 4] = value.to_bytes(4, "little")
    return bytes(changed)


def check_objects(tap, uprobectl, fixtures, rounds):
    chances = random.Random(15)
    workload = str(fixtures / "workload")
    enough = (resource.RLIMIT_AS, (mapped_size(uprobectl) + 256 * MIB,) * 2)
    # Another program of it names a function of a file that is not there.
    chosen = {"calls.bpf.o": ["--program-name", "count_multi"]}
    for name in ("calls.bpf.o", "orders.bpf.o", "greetings.bpf.o"):
        data = (fixtures / name).read_bytes()
        found = []
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "damaged.bpf.o"
            command = [uprobectl, "attach", "--dry-run", "--object", str(file), *chosen.get(name, []), workload, "work_six"]
            for number in range(rounds):
                file.write_bytes(mutated(data, chances))
                found += problems_of(command, f"mutation {number}", limit=enough)
            tap.check(f"{name}: {rounds} damaged copies", found[:5])
            # The headers of sections lie after all else, so each copy lacks some.
            ends = {each for begin, size in sections_of(data).values() for each in (begin, begin + size)}
            ends |= {len(data) * i // 40 for i in range(40)} | {len(data) - 1}
            found = []
            for end in sorted(each for each in ends if each < len(data)):
                file.write_bytes(data[:end])
                found += problems_of(command, f"{end} bytes", limit=enough, reason=f"uprobectl: error: {file}: ")
            tap.check(f"{name}: truncated copies", found[:5])
    found = problems_of([uprobectl, "attach", "--dry-run", "--object", str(fixtures / "many.bpf.o"), workload, "work_six"],
                        "many.bpf.o", limit=enough)
    tap.check("a thousand programs, and a map of gigabytes", found)


def main():
    uprobectl, fixtures = sys.argv[1], Path(sys.argv[2])
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 100
    tap = Tap()
    check_limits(tap, uprobectl, fixtures)
    check_descriptors(tap, uprobectl, fixtures)
    check_stack(tap, uprobectl, fixtures)
    check_processes(tap, uprobectl, fixtures)
    check_data(tap, uprobectl, fixtures)
    check_mounts(tap, uprobectl, fixtures)
    check_capabilities(tap, uprobectl, fixtures)
    check_filter(tap, uprobectl, fixtures)
    check_objects(tap, uprobectl, fixtures, rounds)
    tap.done()


if __name__ == "__main__":
    main()
