# SPDX-License-Identifier: Apache-2.0
"""The real objects of the suite, with their Debian packages and paths."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Object:
    package: str
    architecture: str  # as Debian calls it
    path: str  # inside the package, a shell pattern for exactly one file
    bounded: bool = False  # part of the run that CI makes: small packages, few package lists
    every_name: bool = False  # resolve all of .dynsym, not only a sample
    release: str = ""  # a Debian release other than this machine's

    @property
    def title(self):
        return f"{self.path.rsplit('/', 1)[-1]} of {self.package}:{self.architecture}"


LIBC = "lib/*/libc.so.6"
DEBUG_LIBRARY = "usr/lib/*/debug/libstdc++.so.6"
JVM = "usr/lib/jvm/*/lib/server/libjvm.so"

POSTGRES = "usr/lib/postgresql/15/bin/postgres"
PYTHON = "usr/bin/python3.11"
RUBY = "usr/lib/*/libruby-3.1.so.3.1"

OBJECTS = [
    Object("libc6", "amd64", LIBC, bounded=True, every_name=True),
    Object("libc6", "arm64", LIBC, bounded=True, every_name=True),
    Object("libc6", "armhf", LIBC, bounded=True, every_name=True),
    Object("libc6", "i386", LIBC, every_name=True),
    Object("libc6", "s390x", LIBC, every_name=True),  # big-endian
    # A function's address is its global entry point: that is what every symbol table holds.
    Object("libc6", "ppc64el", LIBC, every_name=True),
    # Debian 12 was not released for riscv64, Debian 13 was.
    Object("libc6", "riscv64", "usr/lib/*/libc.so.6", every_name=True, release="trixie"),
    Object("libstdc++6", "amd64", "usr/lib/*/libstdc++.so.6", bounded=True),
    Object("libstdc++6", "armhf", "usr/lib/*/libstdc++.so.6"),
    Object("libllvm14", "amd64", "usr/lib/*/libLLVM-14.so.1"),
    # Libraries that nobody stripped: static functions, mapping symbols, labels, namesakes.
    Object("libstdc++6-12-dbg", "amd64", DEBUG_LIBRARY),
    Object("libstdc++6-12-dbg", "arm64", DEBUG_LIBRARY),
    Object("libstdc++6-12-dbg", "armhf", DEBUG_LIBRARY, bounded=True),
    Object("libstdc++6-12-dbg", "s390x", DEBUG_LIBRARY),
    Object("libstdc++6-12-dbg", "ppc64el", DEBUG_LIBRARY),
    # 48 thousand functions in .symtab; the path goes through one of two links to one folder.
    Object("openjdk-17-jre-headless", "amd64", JVM),
    Object("openjdk-17-jre-headless", "arm64", JVM),
    Object("openjdk-17-jre-headless", "armhf", JVM),
    Object("mariadb-server-core", "amd64", "usr/sbin/mariadbd"),
]

# Those whose static probes are compared: C++ and Java's runtimes, interpreters, a database with
# semaphores and arguments in variables, libraries; operands of four architectures, others' as text.
STATIC_OBJECTS = [
    Object("libstdc++6", "amd64", "usr/lib/*/libstdc++.so.6", bounded=True),
    Object("python3.11-minimal", "amd64", PYTHON, bounded=True),
    Object("python3.11-minimal", "arm64", PYTHON, bounded=True),
    Object("python3.11-minimal", "armhf", PYTHON, bounded=True),
    Object("python3.11-minimal", "i386", PYTHON),
    Object("python3.11-minimal", "s390x", PYTHON),
    Object("python3.11-minimal", "ppc64el", PYTHON),
    Object("libstdc++6", "riscv64", "usr/lib/*/libstdc++.so.6", release="trixie"),
    Object("postgresql-15", "amd64", POSTGRES, bounded=True),
    Object("postgresql-15", "arm64", POSTGRES),
    Object("postgresql-15", "armhf", POSTGRES),
    Object("postgresql-15", "i386", POSTGRES),
    Object("postgresql-15", "s390x", POSTGRES),
    Object("openjdk-17-jre-headless", "amd64", JVM),
    Object("openjdk-17-jre-headless", "arm64", JVM),
    Object("openjdk-17-jre-headless", "armhf", JVM),
    Object("libvirt0", "amd64", "usr/lib/*/libvirt.so.0"),
    Object("libvirt-daemon-driver-qemu", "amd64", "usr/lib/*/libvirt/connection-driver/libvirt_driver_qemu.so"),
    Object("libvirt0", "i386", "usr/lib/*/libvirt.so.0"),
    Object("libruby3.1", "amd64", RUBY),
    Object("libruby3.1", "arm64", RUBY),
    Object("php8.2-cli", "amd64", "usr/bin/php8.2"),
]
