#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Damages debug information, notes and plans, and runs campaign_suite.sh with them; its TAP becomes ours.

Usage: run_campaign.py --bin build/src/cli/uprobectl --fixtures build/fixtures --cases N
                       (--native | --series 6.12 --cache DIR [--arch arm64 --planner BIN] [--cpu MODEL])
                       [--seed N]… [--keep DIR]

In a guest (--series) an oops of its kernel is harmless. --native runs on this machine: only programs of
ours are probed, by the built-in program and the mechanism that attach chooses. Half of the cases have
fixed seeds; the others are random, and their seeds are printed. --seed runs single cases again, --keep
keeps the damaged programs of those that fail.
"""

import argparse
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "tools"))

from guest_runner import GuestError  # noqa: E402  (the path above comes first)
from guest_runner.architecture import ARCHITECTURES  # noqa: E402
from guest_runner.boot import GuestRun, run_suite  # noqa: E402
from guest_runner.packages import SERIES, fetch_kernel  # noqa: E402
from run_guest_suite import find_busybox  # noqa: E402

# Of ten cases. The sections that a case of a kind damages.
KINDS = {"lines": 2, "info": 2, "notes": 2, "plans": 2, "restless": 1, "hooks": 1}
SECTIONS = {
    "lines": [".debug_line"],
    "info": [".debug_info", ".debug_abbrev", ".debug_rnglists", ".debug_loclists", ".debug_aranges"],
    "notes": [".note.stapsdt"],
}


def main() -> int:
    options = parse_arguments()
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder)
        print(f"# seeds: {make_cases(options, made)}", flush=True)
        (run_natively if options.native else run_in_guest)(options, made)
    return 0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=Path, required=True, help="the static uprobectl")
    parser.add_argument("--fixtures", type=Path, required=True)
    parser.add_argument("--cases", type=int, default=40, metavar="N")
    parser.add_argument("--seed", type=int, action="append", default=[])
    parser.add_argument("--keep", type=Path, metavar="DIR")
    parser.add_argument("--arch", choices=ARCHITECTURES, default="amd64")
    parser.add_argument("--planner", type=Path, metavar="BIN", help="an uprobectl of this machine, which writes the plan")
    parser.add_argument("--cpu", default="", metavar="MODEL", help="QEMU's -cpu")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--native", action="store_true")
    where.add_argument("--series", choices=SERIES)
    cache = os.environ.get("UPROBECTL_GUEST_CACHE")
    parser.add_argument("--cache", type=Path, default=cache)
    parser.add_argument("--timeout", type=float, default=1500, metavar="SECONDS")
    return parser.parse_args()


def make_cases(options: argparse.Namespace, folder: Path) -> str:
    """Writes `cases` and the plans, and returns the seeds."""
    program = (options.fixtures / "campaign").read_bytes()
    sections = read_sections(program)
    plan = subprocess.run(
        [options.planner or options.bin, "attach", "-q", "--write-plan", "-", "--latency", "--args", "none",
         options.fixtures / "campaign", "campaign_*"], capture_output=True, check=True).stdout
    first_random = int(time.time()) % 1000000 * 1000
    seeds = options.seed or [*range(options.cases // 2),
                             *range(first_random, first_random + options.cases - options.cases // 2)]
    kinds = [kind for kind, share in KINDS.items() for _ in range(share)]
    (folder / "plan-undamaged").write_bytes(plan)
    with (folder / "cases").open("w") as cases:
        for seed in seeds:
            kind = kinds[seed % len(kinds)]
            chance = random.Random(seed)
            patches = "-"
            if kind == "plans":
                (folder / f"plan-{seed}").write_text(json.dumps(damage_plan(json.loads(plan), chance)))
            elif kind in SECTIONS:
                ranges = [sections[name] for name in SECTIONS[kind] if name in sections]
                patches = ",".join(damage(program, ranges, chance))
            print(kind, seed, patches, file=cases)
    return " ".join(map(str, options.seed)) or f"{len(seeds) // 2} fixed, {first_random}-{seeds[-1]}"


def read_sections(elf: bytes) -> dict[str, tuple[int, int]]:
    """Offset and size of each section by its name (little-endian, 64 bits)."""
    at, = struct.unpack_from("<Q", elf, 40)
    entry_size, count, names = struct.unpack_from("<HHH", elf, 58)
    headers = [struct.unpack_from("<IIQQQQ", elf, at + i * entry_size) for i in range(count)]
    strings = headers[names][4]
    return {elf[strings + header[0]:elf.index(b"\0", strings + header[0])].decode(): (header[4], header[5])
            for header in headers}


def damage(program: bytes, ranges: list[tuple[int, int]], chance: random.Random) -> list[str]:
    """Patches of one to six bytes: small steps, which move an address a little, and any value."""
    patches = []
    for _ in range(chance.randint(1, 6)):
        offset, size = chance.choice(ranges)
        position = offset + chance.randrange(size)
        old = program[position]
        new = chance.choice([old + chance.choice([-8, -4, -2, -1, 1, 2, 4, 8]), chance.randrange(256)])
        patches.append(f"{position:x}:{new & 0xff:02x}")
    return patches


def damage_plan(plan: dict, chance: random.Random) -> dict:
    """Changes some of its addresses and numbers a little, or to others of the plan."""
    values = []  # (container, key) of each value

    def visit(value: object) -> None:
        for key, child in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(child, (dict, list)):
                visit(child)
            elif not isinstance(child, bool) and (isinstance(child, int) or str(child).startswith("0x")):
                values.append((value, key))

    visit(plan["files"][0]["probes"])
    for _ in range(chance.randint(1, 3)):
        container, key = chance.choice(values)
        other, other_key = chance.choice(values)
        old = container[key]
        number = int(str(old), 0)
        changed = chance.choice([max(0, number + chance.choice([-5, -3, -2, -1, 1, 2, 3, 4, 7, 16])),
                                 int(str(other[other_key]), 0)])
        container[key] = changed if isinstance(old, int) else hex(changed)
    return plan


def run_natively(options: argparse.Namespace, folder: Path) -> None:
    if os.geteuid() != 0:
        print("1..0 # SKIP not root")
        return
    keep = {"KEEP": str(options.keep.resolve())} if options.keep else {}
    subprocess.run(["sh", HERE / "campaign_suite.sh"], check=False, timeout=options.timeout,
                   env={**os.environ, **keep, "UPROBECTL": str(options.bin.resolve()),
                        "FIXTURES": str(options.fixtures.resolve()), "CAMPAIGN": str(folder)})


def run_in_guest(options: argparse.Namespace, folder: Path) -> None:
    try:
        kernel = fetch_kernel(options.arch, options.series, options.cache)
        busybox = find_busybox(options.arch, options.cache)
    except GuestError as error:
        print(f"1..0 # SKIP no Linux {options.series}: {str(error).splitlines()[0]}")
        return
    run = GuestRun(
        arch=options.arch, kernel=kernel, busybox=busybox, cpu=options.cpu, command=["sh", "/suite/campaign_suite.sh"],
        files=[(options.bin, "/usr/bin/uprobectl"),
               *((options.fixtures / name, f"/fixtures/{name}") for name in ("campaign", "restless")),
               *((file, f"/campaign/{file.name}") for file in folder.iterdir()),
               (HERE / "campaign_suite.sh", "/suite/campaign_suite.sh")],
        environment={"UPROBECTL": "/usr/bin/uprobectl", "FIXTURES": "/fixtures", "CAMPAIGN": "/campaign"},
        timeout=options.timeout)
    run_suite(run)


if __name__ == "__main__":
    sys.exit(main())
