# SPDX-License-Identifier: Apache-2.0
"""The command line of tools/guest."""

import argparse
import sys
from pathlib import Path

from . import GuestError
from .architecture import ARCHITECTURES
from .boot import GuestRun, run_guest
from .packages import SERIES, fetch_busybox, fetch_kernel

EXAMPLES = """examples:
  tools/guest kernel --arch amd64 --series 6.12 --cache build/guest-cache
  tools/guest run --kernel build/guest-cache/amd64-6.12/VERSION/vmlinuz -- uname -a
  tools/guest run --kernel VMLINUZ --file build/uprobectl=/usr/bin/uprobectl -- uprobectl doctor
"""


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    try:
        return options.action(options)
    except GuestError as error:
        print(f"guest: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _kernel(options: argparse.Namespace) -> int:
    print(fetch_kernel(options.arch, options.series, options.cache.resolve()))
    return 0


def _busybox(options: argparse.Namespace) -> int:
    print(fetch_busybox(options.arch, options.cache.resolve()))
    return 0


def _run(options: argparse.Namespace) -> int:
    run = GuestRun(
        arch=options.arch,
        kernel=options.kernel,
        command=options.command,
        files=options.file,
        environment=dict(options.env),
        boot_arguments=options.append,
        cpu=options.cpu,
        timeout=options.timeout,
        memory=options.memory,
        busybox=options.busybox,
        console_log=options.console,
    )
    return run_guest(run, sys.stdout.buffer)


def _host_and_guest_path(text: str) -> tuple[Path, str]:
    here, separator, there = text.rpartition("=")
    if not separator or not here or not there.startswith("/"):
        raise argparse.ArgumentTypeError(f"'{text}' is not HOST=/GUESTPATH")
    return Path(here), there


def _name_and_value(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=VALUE")
    return name, value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tools/guest",
        description="Boot a Debian kernel in QEMU (no KVM needed) and run static programs there.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    arch = argparse.ArgumentParser(add_help=False)
    arch.add_argument("--arch", choices=ARCHITECTURES, default="amd64")
    cache = argparse.ArgumentParser(add_help=False)
    cache.add_argument("--cache", type=Path, required=True, metavar="DIR")

    kernel = commands.add_parser(
        "kernel", parents=[arch, cache], help="download a kernel, print its path"
    )
    kernel.add_argument("--series", choices=SERIES, required=True)
    kernel.set_defaults(action=_kernel)

    busybox = commands.add_parser(
        "busybox", parents=[arch, cache], help="download a static busybox, print its path"
    )
    busybox.set_defaults(action=_busybox)

    run = commands.add_parser(
        "run",
        parents=[arch],
        help="boot and run one command; its output and exit status become ours",
        epilog="Exit status: the command's; 1 when the kernel failed, hung or ran out of time.",
    )
    run.add_argument("--kernel", type=Path, required=True, metavar="VMLINUZ")
    run.add_argument("--append", default="", metavar="'A B'", help="boot arguments, such as preempt=full")
    run.add_argument(
        "--cpu", default="", help="QEMU's -cpu, such as max,pauth-impdef=on for pointer authentication"
    )
    run.add_argument("--timeout", type=float, default=60.0, metavar="SECONDS")
    run.add_argument("--memory", type=int, default=640, metavar="MIB")
    run.add_argument(
        "--busybox", type=Path, default=Path("/bin/busybox"), help="static, of the guest's kind"
    )
    run.add_argument(
        "--file", type=_host_and_guest_path, action="append", default=[], metavar="HOST=GUESTPATH"
    )
    run.add_argument("--env", type=_name_and_value, action="append", default=[], metavar="N=VALUE")
    run.add_argument("--console", type=Path, metavar="FILE", help="keep the whole console there")
    run.add_argument("command", nargs="+", metavar="COMMAND")
    run.set_defaults(action=_run)
    return parser
