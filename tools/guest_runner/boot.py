# SPDX-License-Identifier: Apache-2.0
"""Packs an initramfs, boots QEMU with a time limit, and says how the command ended."""

import os
import resource
import secrets
import selectors
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from . import GuestError
from .architecture import ARCHITECTURES, Architecture, check_static_program
from .console import Console
from .cpio import Initramfs

TAIL_LINES = 40
MOUNT_POINTS = ("proc", "sys", "dev", "tmp", "usr/bin")


@dataclass
class GuestRun:
    """One command in one guest."""

    arch: str
    kernel: Path
    command: list[str]
    files: list[tuple[Path, str]] = field(default_factory=list)  # here, there
    environment: dict[str, str] = field(default_factory=dict)
    boot_arguments: str = ""  # for the kernel, after the usual ones: "preempt=full"
    cpu: str = ""  # QEMU's -cpu; the architecture's usual one when empty
    timeout: float = 60.0  # seconds, from QEMU's start
    memory: int = 640  # MiB
    busybox: Path = Path("/bin/busybox")
    console_log: Path | None = None
    forwarded_port: tuple[int, int] | None = None  # here (127.0.0.1), there; there is no network without
    may_reboot: bool = False
    stop: threading.Event = field(default_factory=threading.Event)  # set: ends the guest at once


def run_suite(run: GuestRun) -> None:
    """Prints the TAP of a suite in a guest; a guest that fails is a "Bail out!"."""
    try:
        run_guest(run, sys.stdout.buffer)
    except GuestError as error:
        first, *rest = str(error).splitlines()
        for line in rest:
            print(f"# {line}")
        print(f"Bail out! {first}")


def run_guest(run: GuestRun, sink: BinaryIO) -> int:
    """The command's exit status; GuestError when the guest did not get that far."""
    machine = ARCHITECTURES[run.arch]
    if shutil.which(machine.qemu) is None:
        raise GuestError(f"no program '{machine.qemu}': install Debian's qemu-system package for it")
    if not run.kernel.is_file():
        raise GuestError(f"no kernel at '{run.kernel}'")
    token = secrets.token_hex(8)
    console = Console(token, sink)
    with tempfile.TemporaryDirectory(prefix="guest-") as scratch_name:
        scratch = Path(scratch_name)
        initrd = scratch / "initramfs.cpio"
        initrd.write_bytes(_pack(run, token))
        started, cpu_before = time.monotonic(), seconds_of_cpu()
        in_time, said = _boot(_qemu_command(run, machine, initrd), run, console, scratch)
        took = time.monotonic() - started
    if run.console_log:
        run.console_log.write_bytes(b"".join(console.lines))
    if console.boot_seconds is not None:
        print(
            f"guest: {run.arch} {run.kernel.parent.name}: command started"
            f" {console.boot_seconds:.2f} s after the kernel, {took:.2f} s in all,"
            f" {seconds_of_cpu() - cpu_before:.2f} s of CPU time",
            file=sys.stderr,
        )
    return _verdict(run, console, in_time, said)


def seconds_of_cpu() -> float:
    """What the programs that this one has run and waited for have taken."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def patience() -> float:
    """By how much limits are longer than for an idle machine: tools/test sets it."""
    return float(os.environ.get("UPROBECTL_PATIENCE", "1"))


def _verdict(run: GuestRun, console: Console, in_time: bool, qemu_said: str) -> int:
    if console.trouble:
        raise _failure(f"the kernel failed: {console.trouble.decode(errors='replace')}", console)
    if console.exit_status is not None and console.complaints > 0:
        raise _failure("the kernel complained while the command ran", console)
    if console.exit_status is not None:
        return console.exit_status
    if not in_time:
        where = "the command was running" if console.boot_seconds else "the kernel was booting"
        raise _failure(f"timed out after {run.timeout * patience():g} s while {where}", console)
    if qemu_said and not console.lines:
        raise GuestError(f"qemu did not start: {qemu_said}")
    raise _failure("the guest went off without telling an exit status", console)


def _failure(message: str, console: Console) -> GuestError:
    tail = "\n".join(f"  | {line}" for line in console.tail(TAIL_LINES))
    return GuestError(f"{message}\nguest: the last lines of its console:\n{tail}")


def _pack(run: GuestRun, token: str) -> bytes:
    check_static_program(run.busybox, run.arch)
    tree = Initramfs()
    for folder in MOUNT_POINTS:
        tree.add_folder(folder)
    tree.add_console()
    tree.add_bytes("init", (Path(__file__).parent / "init.sh").read_bytes(), executable=True)
    tree.add_file("bin/busybox", run.busybox)
    for here, there in run.files:
        if not here.is_file():
            raise GuestError(f"no file '{here}' to put at '{there}'")
        tree.add_file(there, here)
    exports = [f"export {name}={shlex.quote(value)}" for name, value in run.environment.items()]
    script = "\n".join([*exports, "exec " + shlex.join(run.command)]) + "\n"
    tree.add_bytes("guest/command", script.encode())
    tree.add_bytes("guest/token", token.encode())
    return tree.pack()


def _qemu_command(run: GuestRun, machine: Architecture, initrd: Path) -> list[str]:
    # oops=panic: a task killed by an oops may leave locks behind and hang the rest; better to end
    # at once, with the words still on the console. panic=-1 and -no-reboot turn that into an exit.
    # thread=single: with a thread for each processor QEMU lets one run code that another has just
    # patched, and a kernel that switches a tracepoint or a branch on stumbles over its own int3.
    # init_on_alloc=0: Debian's kernels clear each page that they give out, which takes emulation a while.
    boot_arguments = (
        f"console={machine.console} quiet oops=panic panic=-1 mitigations=off init_on_alloc=0"
        f" {machine.extra_boot_arguments} {run.boot_arguments}"
    )
    return [
        machine.qemu,
        *machine.machine,
        *("-cpu", run.cpu or machine.cpu),
        *("-accel", "tcg,thread=single", "-smp", "2", "-m", str(run.memory)),
        *("-nographic", "-nodefaults", "-serial", "stdio", "-monitor", "none"),
        *([] if run.may_reboot else ["-no-reboot"]),
        *_network_words(run),
        *("-kernel", str(run.kernel), "-initrd", str(initrd), "-append", boot_arguments.strip()),
    ]


def _network_words(run: GuestRun) -> list[str]:
    if run.forwarded_port is None:
        return []
    here, there = run.forwarded_port
    return [
        *("-netdev", f"user,id=network,restrict=on,hostfwd=tcp:127.0.0.1:{here}-:{there}"),
        *("-device", "e1000,netdev=network,romfile="),
    ]


def _boot(
    command: list[str], run: GuestRun, console: Console, scratch: Path
) -> tuple[bool, str]:
    """Whether the guest ended in time, and what QEMU itself said."""
    messages = scratch / "qemu-messages"
    with messages.open("wb") as message_file, subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=message_file
    ) as qemu:
        assert qemu.stdout is not None
        try:
            in_time = _pump(qemu.stdout, run, console)
        finally:
            qemu.kill()
    return in_time, messages.read_text(errors="replace").strip()


def _pump(output: BinaryIO, run: GuestRun, console: Console) -> bool:
    deadline = time.monotonic() + run.timeout * patience()
    with selectors.DefaultSelector() as selector:
        selector.register(output, selectors.EVENT_READ)
        while not console.finished:
            left = deadline - time.monotonic()
            if left <= 0 or run.stop.is_set():
                return False
            if not selector.select(min(left, 1)):
                continue
            data = os.read(output.fileno(), 65536)
            if not data:
                return True
            console.feed(data)
    return True
