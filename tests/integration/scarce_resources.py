#!/usr/bin/env python3
"""With few descriptors, little memory or a damaged object a command says what is wrong, or works.
Usage: scarce_resources.py UPROBECTL FIXTURES; prints TAP.

Nothing is attached: what needs the kernel is asked for with --dry-run, or without permission.
"""

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
        "attach --object": ["attach", "--dry-run", "--object", str(fixtures / "calls.bpf.o"), workload, "work_six"],
        "attach -p NAME": ["attach", "-d", "10ms", "-p", "no-such-name", workload, "work_six"],
        "list-probes": ["list-probes"],
        "doctor": ["doctor"],
        "debug-unwind": ["debug-unwind", "/nonexistent"],
    }


def problems_of(words, what, limit=None, user=None):
    """What is wrong with how the command ends."""
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
    if ended.returncode != 0 and "error: " not in said and words[1] != "doctor":
        return [f"{what}: status {ended.returncode} without an error: {said.strip()[:300]}"]
    return []


def check_limits(tap, uprobectl, fixtures):
    """Below 3 descriptors nothing can be written; the program itself has some 17 MiB."""
    for name, words in commands(fixtures).items():
        found = []
        for count in [*range(3, 24), 28, 34, 40, 50, 60]:
            found += problems_of([uprobectl, *words], f"{count} descriptors",
                                 (resource.RLIMIT_NOFILE, (count, count)), user=NOBODY)
        tap.check(f"{name}: few descriptors", found)
        found = []
        for size in (20, 22, 24, 28, 32, 48, 64, 96, 128, 192):
            found += problems_of([uprobectl, *words], f"{size} MiB",
                                 (resource.RLIMIT_AS, (size * MIB, size * MIB)), user=NOBODY)
        tap.check(f"{name}: little memory", found)


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
    places = [place for name, place in sections.items() if place[1] >= 4 and
              (name in (".BTF", ".BTF.ext", ".symtab", ".maps") or name.startswith(".rel"))]
    for _ in range(chances.choice((1, 1, 2, 8))):
        offset, size = chances.choice(places) if chances.random() < 0.9 else (0, len(data) - 4)
        at = offset + chances.randrange(size // 4) * 4
        value = chances.choice((0, 1, 2, 0xff, 0xffff, 0x7fffffff, 0xffffffff, 0x80000000,
                                chances.getrandbits(32), chances.randrange(64)))
        changed[at:at + 4] = value.to_bytes(4, "little")
    return bytes(changed)


def check_objects(tap, uprobectl, fixtures, rounds):
    chances = random.Random(15)
    workload = str(fixtures / "workload")
    for name in ("calls.bpf.o", "orders.bpf.o", "greetings.bpf.o"):
        data = (fixtures / name).read_bytes()
        found = []
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "damaged.bpf.o"
            for number in range(rounds):
                file.write_bytes(mutated(data, chances))
                found += problems_of(
                    [uprobectl, "attach", "--dry-run", "--object", str(file), workload, "work_six"], f"mutation {number}")
        tap.check(f"{name}: {rounds} damaged copies", found[:5])


def main():
    uprobectl, fixtures = sys.argv[1], Path(sys.argv[2])
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 400
    tap = Tap()
    check_limits(tap, uprobectl, fixtures)
    check_objects(tap, uprobectl, fixtures, rounds)
    tap.done()


if __name__ == "__main__":
    main()
