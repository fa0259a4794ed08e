#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A device for Debian's adb client: speaks the ADB protocol over TCP and runs commands on this machine.

Usage: adb_device.py --root DIR [--address A] [--port N] [--shell PROGRAM] [--user UID] [--no-shell-v2]

Prints "listening on PORT" once adb can connect. Only 127.0.0.1 is listened on, unless --address says otherwise
(in a guest). Commands run with DIR/system/bin first in PATH, where a test puts getprop, id and su.

With --user, commands run as this user, and pushed files are theirs, unless DIR/is-root is present. Without
it all is done as the user of this program.

SIGUSR1 resets all connections, as a pulled cable does: what runs on the device sees the end of its input.
With DIR/full present no file can be pushed (No space left on device).

The protocol: AOSP packages/modules/adb: protocol.txt (messages), SYNC.TXT (files), SERVICES.TXT (shell, exec,
sync, root), shell_protocol.h (packets of shell,v2)."""

import argparse
import contextlib
import os
import selectors
import signal
import socket
import stat
import struct
import subprocess
import sys
import threading
from pathlib import Path

VERSION = 0x01000001  # without checksums (adb.h, A_VERSION_SKIP_CHECKSUM)
MAX_PAYLOAD = 256 * 1024
HEADER = struct.Struct("<6I")
SHELL_PACKET = struct.Struct("<BI")
SYNC_PACKET = struct.Struct("<4sI")
STDIN, STDOUT, STDERR, EXIT, CLOSE_STDIN = range(5)


def command_number(name):
    return int.from_bytes(name, "little")


def receive(connection, size):
    data = bytearray()
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise EOFError
        data += part
    return bytes(data)


class Stream:
    """One stream of a transport: a pair of sockets, as adbd makes one for each service."""

    def __init__(self, transport, local, remote):
        self.transport, self.local, self.remote = transport, local, remote
        self.service, self.here = socket.socketpair()
        self.ready = threading.Semaphore(0)  # a WRTE may follow each OKAY only (protocol.txt)
        threading.Thread(target=self.send_output, daemon=True).start()

    def send_output(self):
        with contextlib.suppress(OSError):
            while data := self.here.recv(self.transport.max_payload):
                self.transport.send(b"WRTE", self.local, self.remote, data)
                self.ready.acquire()
                if self.transport.closed:
                    return
        self.transport.send(b"CLSE", self.local, self.remote)

    def write_input(self, data):
        with contextlib.suppress(OSError):
            self.here.sendall(data)
        self.transport.send(b"OKAY", self.local, self.remote)

    def close(self):
        with contextlib.suppress(OSError):
            self.here.shutdown(socket.SHUT_RDWR)
        self.ready.release()


class Transport:
    """A connection of an adb server."""

    def __init__(self, device, connection):
        self.device, self.connection = device, connection
        self.lock = threading.Lock()
        self.streams, self.last, self.closed, self.max_payload = {}, 0, False, 4096

    def send(self, name, first, second, data=b""):
        number = command_number(name)
        head = HEADER.pack(number, first, second, len(data), sum(data) & 0xFFFFFFFF, number ^ 0xFFFFFFFF)
        with self.lock, contextlib.suppress(OSError):
            self.connection.sendall(head + data)

    def run(self):
        with contextlib.suppress(EOFError, OSError):
            while True:
                number, first, second, size, _, magic = HEADER.unpack(receive(self.connection, HEADER.size))
                if magic != number ^ 0xFFFFFFFF or size > MAX_PAYLOAD:
                    break
                self.handle(number.to_bytes(4, "little"), first, second, receive(self.connection, size))
        self.closed = True
        for stream in list(self.streams.values()):
            stream.close()
        self.connection.close()

    def handle(self, name, first, second, data):
        if name == b"CNXN":
            self.max_payload = min(second, MAX_PAYLOAD)
            self.send(b"CNXN", VERSION, MAX_PAYLOAD, self.device.banner())
        elif name == b"OPEN":
            self.open(first, data.rstrip(b"\0").decode())
        elif stream := self.streams.get(second):
            if name == b"WRTE":
                stream.write_input(data)
            elif name == b"OKAY":
                stream.ready.release()
            elif name == b"CLSE":
                del self.streams[second]
                stream.close()

    def open(self, remote, service):
        serve = self.device.service(service)
        if not serve:
            self.send(b"CLSE", 0, remote)
            return
        self.last += 1
        stream = Stream(self, self.last, remote)
        self.streams[stream.local] = stream
        self.send(b"OKAY", stream.local, remote)
        threading.Thread(target=self.serve, args=(serve, stream), daemon=True).start()

    @staticmethod
    def serve(serve, stream):
        with stream.service, contextlib.suppress(OSError, EOFError):
            serve(stream.service)


class Device:
    def __init__(self, options):
        self.root, self.shell, self.user = options.root, options.shell, options.user
        self.features = "cmd" if options.no_shell_v2 else "shell_v2,cmd"
        self.transports = []

    def banner(self):
        properties = {"ro.product.name": "test", "ro.product.model": "Test_Device", "features": self.features}
        return ("device::" + "".join(f"{key}={value};" for key, value in properties.items())).encode()

    def service(self, name):
        kind, _, rest = name.partition(":")
        if kind.startswith("shell"):
            run = self.run_shell_v2 if ",v2" in kind else self.run_plain
            return lambda end: run(end, rest)
        if kind == "exec":
            return lambda end: self.run_plain(end, rest)
        if kind == "sync":
            return self.sync
        if kind == "root":
            return self.restart_as_root
        if kind == "reboot" and (self.root / "system/bin/reboot").exists():  # never this machine's own
            return lambda end: self.run_plain(end, "reboot")
        return None

    def is_root(self):
        return self.user is None or (self.root / "is-root").exists()

    def start(self, command, **streams):
        environment = {"PATH": f"{self.root}/system/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/",
                       "DEVICE_ROOT": str(self.root)}
        user = {} if self.is_root() else {"user": self.user, "group": self.user, "extra_groups": []}
        return subprocess.Popen([self.shell, "-c", command], env=environment, cwd="/", **streams, **user)

    def restart_as_root(self, end):
        """adbd restarts; here commands run as root from now on, if the build allows it."""
        if (self.root / "production").exists():
            end.sendall(b"adbd cannot run as root in production builds\n")
            return
        (self.root / "is-root").touch()
        end.sendall(b"restarting adbd as root\n")
        threading.Timer(0.3, self.reset).start()

    def run_plain(self, end, command):
        with self.start(command, stdin=end, stdout=end, stderr=end) as process:
            process.wait()

    def run_shell_v2(self, end, command):
        process = self.start(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        threading.Thread(target=self.feed, args=(end, process), daemon=True).start()
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ, STDOUT)
            selector.register(process.stderr, selectors.EVENT_READ, STDERR)
            lost = False
            while selector.get_map():
                for key, _ in selector.select():
                    data = os.read(key.fileobj.fileno(), 16384)
                    if not data:
                        selector.unregister(key.fileobj)
                    elif not lost:
                        try:
                            end.sendall(SHELL_PACKET.pack(key.data, len(data)) + data)
                        except OSError:
                            lost = True
                            process.stdout.close()
                            process.stderr.close()
                            process.wait()
                            return
        status = process.wait()
        end.sendall(SHELL_PACKET.pack(EXIT, 1) + bytes([status if status >= 0 else 128 - status]))
        end.shutdown(socket.SHUT_WR)

    @staticmethod
    def feed(end, process):
        """The client's packets, to the command's stdin. It ends with the connection."""
        with contextlib.suppress(EOFError, OSError, ValueError):
            while True:
                kind, size = SHELL_PACKET.unpack(receive(end, SHELL_PACKET.size))
                data = receive(end, size)
                if kind == CLOSE_STDIN:
                    break
                if kind == STDIN:
                    process.stdin.write(data)
                    process.stdin.flush()
        with contextlib.suppress(OSError):
            process.stdin.close()

    def sync(self, end):
        while True:
            name, size = SYNC_PACKET.unpack(receive(end, SYNC_PACKET.size))
            if name == b"QUIT":
                return
            path = receive(end, size).decode()
            if name == b"STAT":
                self.sync_stat(end, path)
            elif name == b"SEND":
                self.sync_send(end, path)
            else:
                end.sendall(SYNC_PACKET.pack(b"FAIL", 11) + b"unsupported")
                return

    @staticmethod
    def sync_stat(end, path):
        mode, size, time = 0, 0, 0
        with contextlib.suppress(OSError):
            status = os.stat(path)
            mode, size, time = status.st_mode, status.st_size & 0xFFFFFFFF, int(status.st_mtime)
        end.sendall(struct.pack("<4s3I", b"STAT", mode, size, time))

    def sync_send(self, end, request):
        path, _, mode = request.rpartition(",")
        problem, target = None, -1
        try:
            if (self.root / "full").exists():
                raise OSError(28, "No space left on device")
            Path(path).unlink(missing_ok=True)
            target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            problem = f"couldn't create file: {error.strerror}"
        while True:
            name, size = SYNC_PACKET.unpack(receive(end, SYNC_PACKET.size))
            if name == b"DONE":
                break
            data = receive(end, size)
            try:
                while data and not problem:
                    data = data[os.write(target, data):]
            except OSError as error:
                problem = f"write failed: {error.strerror}"
                os.unlink(path)
        if target >= 0:
            os.fchmod(target, stat.S_IMODE(int(mode)))
            if not self.is_root():
                os.fchown(target, self.user, self.user)
            os.close(target)
        if problem:
            end.sendall(SYNC_PACKET.pack(b"FAIL", len(problem)) + problem.encode())
        else:
            end.sendall(SYNC_PACKET.pack(b"OKAY", 0))

    def reset(self, *_):
        for transport in self.transports:
            with contextlib.suppress(OSError):
                transport.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                transport.connection.shutdown(socket.SHUT_RDWR)
        self.transports.clear()

    def serve(self, address, port):
        with socket.create_server((address, port)) as listener:
            print(f"listening on {listener.getsockname()[1]}", flush=True)
            while True:
                connection, _ = listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                transport = Transport(self, connection)
                self.transports.append(transport)
                threading.Thread(target=transport.run, daemon=True).start()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--address", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--shell", default="/bin/sh")
    parser.add_argument("--user", type=int)
    parser.add_argument("--no-shell-v2", action="store_true")
    options = parser.parse_args()
    device = Device(options)
    signal.signal(signal.SIGUSR1, device.reset)
    with contextlib.suppress(KeyboardInterrupt):
        device.serve(options.address, options.port)


if __name__ == "__main__":
    sys.exit(main())
