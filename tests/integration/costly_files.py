#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Malicious tables cost no more time or memory than ordinary files of the same size.
Usage: costly_files.py UPROBECTL [FIXTURES]; prints TAP.

Each is compared with a file that has as many symbols, of different names and at different addresses.
"""

import io
import platform
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap

TEXT = 0x1000
CODE = (b"\x90" * 15 + b"\xc3") * 8192  # 128 KiB: nops, and a return in each 16 bytes
SYMBOLS = 60_000
# An answer that takes time squared takes minutes here.
TIMES = 12
SECONDS = 5
MEMORY = 1 << 30


def elf(rows):
    """An x86-64 library with the code and a .symtab of (name, address, size)."""
    strings = bytearray(b"\0")
    known = {}
    symbols = bytearray(24)
    for name, address, size in rows:
        if name not in known:
            known[name] = len(strings)
            strings += name.encode() + b"\0"
        symbols += struct.pack("<IBBHQQ", known[name], 0x12, 0, 1, address, size)
    names = b"\0.text\0.symtab\0.strtab\0.shstrtab\0"
    extents = {}
    body = bytearray(TEXT)
    for section, data in ((1, CODE), (7, symbols), (15, strings), (23, names)):
        body += bytes(-len(body) % 16)
        extents[section] = (len(body), len(data))
        body += data
    body += bytes(-len(body) % 8)
    headers = len(body)
    body += bytes(64)
    for section, kind, flags, address, link, info, entry in (
            (1, 1, 6, TEXT, 0, 0, 0), (7, 2, 0, 0, 3, 1, 24), (15, 3, 0, 0, 0, 0, 0), (23, 3, 0, 0, 0, 0, 0)):
        body += struct.pack("<IIQQQQIIQQ", section, kind, flags, address, *extents[section], link, info, 8, entry)
    struct.pack_into("<16sHHIQQQIHHHHHH", body, 0, b"\x7fELF\2\1\1".ljust(16, b"\0"), 3, 62, 1, 0, 64, headers,
                     0, 64, 56, 1, 64, 5, 4)
    struct.pack_into("<IIQQQQQQ", body, 64, 1, 5, 0, 0, 0, TEXT + len(CODE), TEXT + len(CODE), 4096)
    return bytes(body)


def spread(number):
    return TEXT + 16 * (number % 8000)


ORDINARY = [(f"function_{i}", spread(i), 16) for i in range(SYMBOLS)]
COSTLY = {
    "all symbols at one address": [(f"function_{i}", TEXT, 16) for i in range(SYMBOLS)],
    "one name at many addresses": [("function_0", spread(i), 16) for i in range(SYMBOLS)],
    "clones of one function": [(f"function_0.isra.{i}", spread(i), 16) for i in range(SYMBOLS)],
    "a function and its clones": [("function_0", TEXT, 16),
                                  *((f"function_0.isra.{i}", spread(i), 16) for i in range(SYMBOLS))],
    "names that begin and end alike": [(f"{'a' * 8}{i // 2:08}{'b' * 32}{'.isra.0' * (i % 2)}", spread(i), 16)
                                       for i in range(SYMBOLS)],
}
QUESTIONS = {
    "resolve a name": ["resolve", "FILE", "function_0"],
    "resolve --all": ["resolve", "--all", "FILE", "function_0"],
    "resolve a pattern": ["resolve", "FILE", "*"],
    "resolve --emit": ["resolve", "--emit", "perf", "FILE", "*"],
    "list-symbols": ["list-symbols", "FILE"],
    "list-symbols --aliases": ["list-symbols", "--json", "--aliases", "FILE"],
}


def ask(uprobectl, words, file, memory=MEMORY, stdout=subprocess.DEVNULL):
    """Seconds of processor time, and the exit status or what it was killed by."""
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        resource.setrlimit(resource.RLIMIT_CPU, (120, 120))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = subprocess.run([uprobectl, *(file if word == "FILE" else word for word in words)],
                           stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE,
                           preexec_fn=limit, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, ended.returncode, ended.stderr.decode(errors="replace")


def check_times(tap, uprobectl, folder):
    ordinary = folder / "ordinary"
    ordinary.write_bytes(elf(ORDINARY))
    for question, words in QUESTIONS.items():
        usual, _, _ = ask(uprobectl, words, ordinary)
        for name, rows in COSTLY.items():
            file = folder / name.replace(" ", "-")
            if not file.exists():
                file.write_bytes(elf(rows))
            seconds, status, said = ask(uprobectl, words, file)
            found = []
            if status not in (0, 1) or "internal error" in said or "memory" in said:
                found.append(f"status {status}: {said[:300]}")
            if seconds > SECONDS + TIMES * usual:
                found.append(f"{seconds:.1f} s; an ordinary file takes {usual:.1f} s")
            tap.check(f"{name}: {question}", found)


def check_overlap(tap, uprobectl, folder):
    """14,000 functions of 128 KiB each, which lie over each other: 1.8 GB of code in half a megabyte."""
    file = folder / "overlap"
    file.write_bytes(elf([(f"function_{i}", spread(i), len(CODE) - 16 * (i % 8000)) for i in range(14_000)]))
    found = []
    for words in (["attach", "--dry-run", "--return-at", "ret", "--return", "FILE", "*"],
                  ["attach", "--dry-run", "--latency", "FILE", "*"]):
        seconds, status, said = ask(uprobectl, words, file)
        if status not in (0, 1) or "memory" in said:
            found.append(f"{words}: status {status}: {said[:300]}")
        if seconds > 60:
            found.append(f"{words}: {seconds:.1f} s")
    tap.check("functions that lie over each other: their returns", found)


LONG_NAMES = {
    "one long name": "_Z1fIJ" + "i" * 60_000 + "EEvv",
    "one long chain of scopes": "_ZN" + "3abc" * 15_000 + "Ev",
}


def check_long_names(tap, uprobectl, folder):
    """10,000 symbols share a name of 60 KB: 600 MB of names in 400 KB."""
    usual, _, _ = ask(uprobectl, ["resolve", "FILE", "ns::*"], folder / "ordinary")
    for name, text in LONG_NAMES.items():
        file = folder / name.replace(" ", "-")
        file.write_bytes(elf([(text, spread(i), 16) for i in range(10_000)]))
        seconds, status, said = ask(uprobectl, ["resolve", "FILE", "ns::*"], file)
        found = []
        if status != 1 or "no function matches" not in said:
            found.append(f"status {status}: {said[:300]}")
        if seconds > SECONDS + TIMES * usual:
            found.append(f"{seconds:.1f} s; an ordinary file takes {usual:.1f} s")
        tap.check(f"{name}: demangling", found)


def zip_of(count, name, content):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for i in range(count):
            archive.writestr(name.format(i), content)
    return made.getvalue()


def check_archives(tap, uprobectl, folder):
    """Twice the entries take twice the time, and not four times."""
    inner = zip_of(1, "lib/x86_64/libz.so", b"\x7fELF")
    for what, count, name, content, words in (
            ("APKs in an archive", 10_000, "a{}.apk", inner, ["list-symbols", "FILE"]),
            ("libraries that match a pattern", 20_000, "lib/x86_64/lib{}.so", b"",
             ["list-symbols", "-q", "FILE!/lib/*/lib*.so"])):
        times = []
        for factor in (1, 2):
            file = folder / f"{what.replace(' ', '-')}-{factor}.zip"
            file.write_bytes(zip_of(factor * count, name, content))
            seconds, status, said = ask(uprobectl, [word.replace("FILE", str(file)) for word in words], file)
            times.append(seconds)
            if status not in (0, 1):
                said = f"status {status}: {said[:300]}"
        found = [] if status in (0, 1) else [said]
        # Time squared takes half a minute.
        if times[1] > 6 or times[1] > 1 + 3 * times[0]:
            found.append(f"{count} entries: {times[0]:.1f} s, {2 * count}: {times[1]:.1f} s")
        tap.check(f"many {what}", found)


def check_plan(tap, uprobectl, folder):
    """19 MB of plan."""
    probe = '{"function":"*","address":"0x15b0","symbol":"a%d","size":4,"kind":"function","table":"symtab"}'
    plan = folder / "plan"
    plan.write_text('{"format":"uprobectl-plan","version":1,"program":"x","target":"/none","functions":["*"],"options":[],'
                    '"files":[{"target":"/none","machine":"x86-64","build_id":"00","probes":['
                    + ",".join(probe % i for i in range(200_000)) + "]}]}")
    seconds, status, said = ask(uprobectl, ["attach", "--dry-run", "--plan", "FILE"], plan, memory=400 << 20)
    found = [] if status == 1 and "/none" in said else [f"status {status}: {said[:300]}"]
    if seconds > 10:
        found.append(f"{seconds:.1f} s")
    tap.check("a plan of 200,000 probe points", found)


def check_mapping(tap, uprobectl, folder):
    """All lines of a method are one frame, inlined 100,000 deep; a report asks for it again and again."""
    mapping = folder / "mapping"
    mapping.write_text("org.shop.T -> a.b:\n" + "".join(f"    1:65535:void m{i}():{i}:{i} -> a\n" for i in range(100_000)))
    for what, line in (("line", lambda i: 3), ("lines", lambda i: i % 65000 + 1)):
        report = folder / "report"
        report.write_text("java.lang.RuntimeException\n"
                          + "".join(f"\tat a.b.a(SourceFile:{line(i)})\n" for i in range(3000)))
        out = folder / "output"
        with out.open("wb") as stdout:
            seconds, status, said = ask(uprobectl, ["symbolize", "--mapping", str(mapping), "FILE"], report, stdout=stdout)
        found = [] if status == 0 and "inlined frames of the mapping are not shown" in said else [f"status {status}: {said[:300]}"]
        if seconds > 20:
            found.append(f"{seconds:.1f} s")
        if out.stat().st_size > 40 << 20:
            found.append(f"{out.stat().st_size} bytes of output")
        tap.check(f"a mapping with one deep frame: a report of 3,000 times its {what}", found)


def check_line(tap, uprobectl, folder):
    """Each of a line's 12,500 pieces is checked from the start of the same function."""
    pieces = 12_500
    (folder / "line.s").write_text(
        '.file "big.c"\n.text\n.globl main\n.type main,@function\nmain:\n.file 1 "big.c"\n'
        + ".loc 1 7 0\nmovl $1,%eax\n.loc 1 8 0\nmovl $2,%eax\n" * pieces
        + 'ret\n.size main,.-main\n.section .note.GNU-stack,"",@progbits\n')
    subprocess.run(["gcc", "-g", "-no-pie", "line.s", "-o", "line"], cwd=folder, check=True)
    seconds, status, said = ask(uprobectl, ["resolve", "FILE", "big.c:7"], folder / "line")
    found = [] if status == 0 else [f"status {status}: {said[:300]}"]
    if seconds > 3:
        found.append(f"{seconds:.1f} s")
    tap.check(f"FILE:LINE of a line with {pieces:,} pieces of code", found)


def catches(pid, number):
    """Whether the process has a handler for the signal."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return False
    caught = next((int(line.split()[1], 16) for line in lines if line.startswith("SigCgt:")), 0)
    return bool(caught >> (number - 1) & 1)


def check_signals(tap, uprobectl, folder):
    """The file of check_overlap() is looked through for seconds."""
    for number in (signal.SIGINT, signal.SIGTERM):
        with subprocess.Popen([uprobectl, "attach", "--dry-run", "--return", folder / "overlap", "*"],
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              text=True) as process:
            while process.poll() is None and not catches(process.pid, number):
                time.sleep(0.005)
            before = time.monotonic()
            process.send_signal(number)
            said = process.communicate()[1]
            seconds = time.monotonic() - before
        found = []
        if process.returncode != 130 or "interrupted" not in said:
            found.append(f"status {process.returncode}: {said[:300]}")
        if seconds > 1:
            found.append(f"{seconds:.1f} s")
        tap.check(f"{number.name} ends the search for functions", found)


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        check_times(tap, sys.argv[1], Path(folder))
        check_overlap(tap, sys.argv[1], Path(folder))
        check_long_names(tap, sys.argv[1], Path(folder))
        check_archives(tap, sys.argv[1], Path(folder))
        if platform.machine() == "x86_64":
            check_line(tap, sys.argv[1], Path(folder))
        check_plan(tap, sys.argv[1], Path(folder))
        check_mapping(tap, sys.argv[1], Path(folder))
        check_signals(tap, sys.argv[1], Path(folder))
    tap.done()


if __name__ == "__main__":
    main()
