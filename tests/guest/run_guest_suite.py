#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Boots a kernel and runs a suite of tests/guest inside it; the suite's TAP becomes ours.

Usage: run_guest_suite.py --series 6.12 --bin build/uprobectl --fixtures build/fixtures
                          --cache DIR [--arch amd64|arm64] [SUITE.sh]
A kernel that cannot be had is a skip with its reason; one that fails is a "Bail out!".
"""

import argparse
import gzip
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
DOCS = HERE.parent.parent / "docs"
sys.path.insert(0, str(HERE.parent.parent / "tools"))

from guest_runner import GuestError  # noqa: E402  (the path above comes first)
from guest_runner.architecture import ARCHITECTURES  # noqa: E402
from guest_runner.boot import GuestRun, patience, run_suite  # noqa: E402
from guest_runner.packages import SERIES, fetch_busybox, fetch_kernel  # noqa: E402

# Read beside files that scenarios name, or named in variables.
FURTHER_FIXTURES = ("binder-app.vdex", "flow-rust", "types/types-library", "types/types-library-old-abi",
                    "types/types-libcxx", "types/types-rust", "types/types-rust-unoptimized")
CROSS_LIBRARIES = "aarch64-linux-gnu"
# Android's libc, in UPROBECTL_CORPUS.
BIONIC_LIBC = "unwind/apk_rx_arm64/libc.so.gz"
# Detaching a probe waits for grace periods of RCU.
QUICK_DETACHING = "rcupdate.rcu_expedited=1"
# Seconds for one suite: an idle machine needs a quarter of it.
SUITE_TIMEOUT = 1500


def fixture_names() -> set[str]:
    """Those that scenarios name. Some are made only where their compiler is, or for one architecture."""
    scenarios = "".join(script.read_text() for script in HERE.glob("*.sh"))
    return {*re.findall(r"\$FIXTURES/([\w./+-]+)", scenarios), *FURTHER_FIXTURES}


def main() -> int:
    options = parse_arguments()
    machine = ARCHITECTURES[options.arch]
    if shutil.which(machine.qemu) is None:
        return skip(f"no program '{machine.qemu}'")
    try:
        kernel = fetch_kernel(options.arch, options.series, options.cache)
        busybox = find_busybox(options.arch, options.cache)
    except GuestError as error:
        return skip(f"no Linux {options.series} for {options.arch}: {error}")
    with tempfile.TemporaryDirectory() as scratch:
        run_suite(guest_run(options, kernel, busybox, Path(scratch)))
    # The lines say what failed; an exit status besides would only hide them.
    return 0


def guest_run(options: argparse.Namespace, kernel: Path, busybox: Path, scratch: Path) -> GuestRun:
    return GuestRun(
        arch=options.arch,
        kernel=kernel,
        busybox=busybox,
        command=["sh", f"/suite/{options.suite}"],
        files=[
            (options.bin, "/usr/bin/uprobectl"),
            *((options.fixtures / name, f"/fixtures/{name}") for name in fixture_names()
              if (options.fixtures / name).is_file()),
            *libc_files(options),
            *bionic_files(options, scratch),
            *((page, f"/docs/{page.name}") for page in sorted(DOCS.glob("*.md"))),
            *((script, f"/suite/{script.name}") for script in sorted(HERE.glob("*.sh"))),
        ],
        environment={"UPROBECTL": "/usr/bin/uprobectl", "FIXTURES": "/fixtures", "DOCS": "/docs",
                     "CPU_FEATURES": options.features, "SCOPE": options.scope,
                     "UPROBECTL_PATIENCE": f"{patience():g}", "THROWAWAY_KERNEL": "yes"},
        boot_arguments=f"{QUICK_DETACHING} {options.append}",
        cpu=options.cpu,
        timeout=options.timeout,
    )


def libc_files(options: argparse.Namespace) -> list[tuple[Path, str]]:
    """The libc of the cross compiler, for programs that are not static."""
    loader = Path(f"/usr/{CROSS_LIBRARIES}/lib/ld-linux-aarch64.so.1")
    if options.arch != "arm64" or not loader.exists():
        return []
    return [(loader, f"/lib/{loader.name}"), (loader.with_name("libc.so.6"), f"/lib/{CROSS_LIBRARIES}/libc.so.6")]


def bionic_files(options: argparse.Namespace, scratch: Path) -> list[tuple[Path, str]]:
    """Android's libc, for the programs of fixtures/bionic."""
    packed = Path(os.environ.get("UPROBECTL_CORPUS") or "/nonexistent") / BIONIC_LIBC
    if options.arch != "arm64" or not packed.exists():
        return []
    library = scratch / "libc.so"
    library.write_bytes(gzip.decompress(packed.read_bytes()))
    return [(library, "/fixtures/bionic/libc.so")]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arch", choices=ARCHITECTURES, default="amd64")
    parser.add_argument("--series", choices=SERIES, required=True)
    parser.add_argument("--append", default="", metavar="'A B'", help="boot arguments, such as preempt=full")
    parser.add_argument("--cpu", default="", metavar="MODEL", help="QEMU's -cpu")
    parser.add_argument("--features", default="", metavar="'A B'",
                        help="what /proc/cpuinfo must name there")
    parser.add_argument("--scope", default="all", metavar="'A B'",
                        help="what of the suite: words that attach_suite.sh explains")
    parser.add_argument("--bin", type=Path, required=True, help="the static uprobectl")
    parser.add_argument("--fixtures", type=Path, required=True)
    cache = os.environ.get("UPROBECTL_GUEST_CACHE")
    parser.add_argument("--cache", type=Path, default=cache, required=cache is None)
    parser.add_argument("--timeout", type=float, default=SUITE_TIMEOUT, metavar="SECONDS")
    parser.add_argument("suite", nargs="?", default="attach_suite.sh", metavar="SUITE.sh")
    return parser.parse_args()


def find_busybox(arch: str, cache: Path) -> Path:
    here = Path("/bin/busybox")
    native = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine)
    return here if native == arch and here.exists() else fetch_busybox(arch, cache)


def skip(reason: str) -> int:
    print(f"1..0 # SKIP {reason.splitlines()[0]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
