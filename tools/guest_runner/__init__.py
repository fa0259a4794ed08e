# SPDX-License-Identifier: Apache-2.0
"""The guest runner: Debian kernels, an initramfs made here, QEMU without hardware help.

Promises that a command's output and exit status come out as if it had run here, and that a kernel
which oopses, panics or hangs is a failure which shows its own words. Offers no disk and no shared
folder: Debian builds virtio and 9p as modules, so everything travels in the initramfs. On request one
port of this machine leads to one of the guest.
"""


class GuestError(Exception):
    """What a person can understand and act on; `main` prints it and ends with 1."""
