# SPDX-License-Identifier: Apache-2.0
"""What differs between the guests' architectures, in one table."""

from dataclasses import dataclass
from pathlib import Path

from . import GuestError


@dataclass(frozen=True)
class Architecture:
    qemu: str
    machine: tuple[str, ...]
    cpu: str
    console: str
    extra_boot_arguments: str
    elf_machine: int  # e_machine of the ELF header, from the gABI's list


ARCHITECTURES = {
    # max: everything the emulator has, but for what makes it slow: with erms and fsrm the kernel clears and
    # copies memory byte by byte, with la57 page tables have five levels. tsc=reliable: no watchdog doubting an
    # emulated clock. no_timer_check: on a busy machine the kernel counts too few ticks, and panics. kpti=off: a
    # kernel with KASLR has page tables of its own even with mitigations=off, and each system call then empties
    # the emulator's translations of addresses: all takes twice as long.
    "amd64": Architecture(
        "qemu-system-x86_64", ("-M", "q35"), "max,-erms,-fsrm,-la57", "ttyS0", "tsc=reliable no_timer_check", 62
    ),
    "arm64": Architecture(
        "qemu-system-aarch64", ("-M", "virt"), "cortex-a72", "ttyAMA0", "kpti=off", 183
    ),
}


def check_static_program(path: Path, arch: str) -> None:
    """A program of another architecture or a dynamic one ends in a panic that says little."""
    try:
        head = path.read_bytes()[:64]
    except OSError as error:
        raise GuestError(f"cannot read '{path}': {error.strerror}") from error
    if head[:4] != b"\x7fELF" or len(head) < 20:
        raise GuestError(f"'{path}' is no ELF file")
    machine = int.from_bytes(head[18:20], "little")
    if machine != ARCHITECTURES[arch].elf_machine:
        raise GuestError(f"'{path}' is not a program for {arch} (e_machine is {machine})")
