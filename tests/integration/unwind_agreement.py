#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""unwind_agreement.py UPROBECTL SOURCES
Stacks through `uprobectl debug-unwind`. First those of a program that writes its own (SOURCES: the
folder fixtures/stacks), as each compiler here makes it: the same addresses as libgcc's unwinder saw in
the program, the ELF addresses that follow from maps and program headers, the names that nm has; with
files compressed, mapped from an archive, with broken tables. Then the corpus', whose frames
libunwindstack found. Prints TAP."""

import gzip
import json
import lzma
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from tap import Tap

X86 = os.uname().machine == "x86_64"
BACK = 1 if X86 else 4
# Scene, and the functions of the program that must be on its stack, the innermost first.
SCENES = [
    ("leaf", ["leaf", "main"]),
    ("deep", ["leaf"] + ["deep"] * 301 + ["main"]),
    ("tail-call", ["leaf", "target_of_tail_call", "calls_tail_caller", "main"]),
    ("alloca", ["leaf", "with_alloca", "main"]),
    ("library", ["leaf", "compare", "through_library", "main"]),
    ("handler", ["leaf", "handler", "raises", "main"]),
    ("handler-on-other-stack", ["leaf", "handler", "raises", "main"]),
    ("fault", ["leaf", "handler", "faults", "calls_faults", "main"]),
    ("cleanup", None),
    ("landing", None),
    ("thread", ["leaf", "thread_body"]),
]
X86_SCENES = [
    ("expression", ["leaf", "realigns", "calls", "main"]),
    ("restore-state", ["leaf", "two_exits", "second_exit", "calls", "main"]),
    ("pushes", ["pushes", "calls", "main"]),
    ("register", ["keeps_in_register", "calls", "main"]),
]
# Where libgcc sees no further than the first two.
# Files of the corpus' stacks that are missing or no ELF image: addresses in them are not known.
UNREADABLE = {"load_bias_ro_rx_x86_64": ["perfetto_unittests"], "eh_frame_hdr_begin_x86_64": ["libc.so"]}
BLIND = [("debug-frame", ["leaf", "debug_frame_only", "has_debug_frame", "calls", "main"])]
X86_BLIND = [
    ("frame-pointer", ["leaf", "no_cfi_frame", "calls", "main"]),
    ("entry", ["no_cfi_entry", "calls", "main"]),
]


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)


def build(compiler, sources, folder):
    """The program, or why it cannot be built."""
    cc, cxx = compiler
    common = ["-O2", "-fomit-frame-pointer", "-fasynchronous-unwind-tables", "-pthread"]
    steps = [
        [cc, "-O2", "-g", "-gdwarf-4", "-fomit-frame-pointer", "-fno-asynchronous-unwind-tables",
         "-fno-unwind-tables", "-c", sources / "debug_frame_only.c", "-o", folder / "debug_frame_only.o"],
        [cxx, "-std=c++20", *common, sources / "scenes.cpp", sources / "snapshot.cpp",
         sources / "scenes_x86_64.S", folder / "debug_frame_only.o", "-o", folder / "scenes"],
    ]
    for step in steps:
        done = run(*map(str, step))
        if done.returncode != 0:
            return None, done.stderr
    return folder / "scenes", None


def executable_segments(path):
    """(offset, size, address) of each PT_LOAD with PF_X of a 64-bit file."""
    data = Path(path).read_bytes()
    table, = struct.unpack_from("<Q", data, 0x20)
    entry_size, count = struct.unpack_from("<HH", data, 0x36)
    for i in range(count):
        kind, flags, offset, address, _, size = struct.unpack_from("<IIQQQQ", data, table + i * entry_size)
        if kind == 1 and flags & 1:
            yield offset, size, address


def mappings(folder):
    for line in (folder / "maps.txt").read_text().splitlines():
        field = line.split(None, 5)
        start, end = (int(x, 16) for x in field[0].split("-"))
        yield start, end, field[1], int(field[2], 16), field[5] if len(field) > 5 else ""


def elf_address(pc, folder):
    """(file, ELF address) of a run-time address."""
    for start, end, mode, offset, path in mappings(folder):
        if start <= pc < end and "x" in mode and path.startswith("/"):
            for at, size, address in executable_segments(path):
                if at <= pc - start + offset < at + size:
                    return path, pc - start + offset - at + address
    return None, None


def functions(program):
    """[(address, size, name)] as nm has them."""
    found = []
    for line in run("nm", "-S", "--defined-only", program).stdout.splitlines():
        field = line.split()
        if len(field) == 4 and field[2] in "tTwW":
            found.append((int(field[0], 16), int(field[1], 16), field[3]))
    return found


def take(program, scene, folder, *more):
    """The folder of a scene with the files it maps; the addresses that libgcc found."""
    folder.mkdir()
    reference = run(program, scene, folder, *more)
    for path in {m[4] for m in mappings(folder) if "x" in m[2] and m[4].startswith("/")}:
        (folder / Path(path).name).symlink_to(path)
    return [int(line, 16) for line in reference.stdout.split()]


def unwind(uprobectl, folder):
    done = run(uprobectl, "debug-unwind", "--json", folder)
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr.strip()


def own_names(frames, program):
    return [f["symbol"] for f in frames if f["file"] and Path(f["file"]).name == program.name]


def compare(frames, reference, folder, program, names):
    """What is wrong with the frames; reference: libgcc's addresses, or None."""
    problems = []
    pcs = [int(f["pc"], 16) for f in frames]
    if reference is not None and pcs != reference:
        problems.append(f"libgcc saw {[hex(x) for x in reference][:12]}, we {[hex(x) for x in pcs][:12]}")
    known = functions(program)
    interrupted = True  # the innermost frame, and what a handler returns to
    for index, frame in enumerate(frames):
        pc = int(frame["pc"], 16)
        name = frame["symbol"] or ""
        trampoline = name in ("__restore_rt", "__kernel_rt_sigreturn")
        # raise() is interrupted in its system call, and shown there.
        in_system_call = interrupted and "kill" in name
        path, address = elf_address(pc if trampoline or interrupted else pc - BACK, folder)
        if path and in_system_call:
            address -= BACK
        if path != frame["file"] or (path and hex(address) != frame["module_address"]):
            problems.append(f"{index}: {frame}, not {path} {hex(address or 0)}")
        if path == str(program):
            fits = [n for start, size, n in known
                    if start <= address < start + size and hex(address - start) == frame["symbol_offset"]]
            if name not in fits:
                problems.append(f"{index}: named {name}, not {fits}")
        interrupted = trampoline
    own = [n for n in own_names(frames, program) if n != "_start"]
    if names is not None and own != names:
        problems.append(f"the program's functions are {own[:12]}, not {names[:12]}")
    return problems


def scenes(tap, uprobectl, label, program, root):
    for scene, names in SCENES + (X86_SCENES if X86 else []):
        folder = root / scene
        reference = take(program, scene, folder)
        frames, why = unwind(uprobectl, folder)
        problems = compare(frames, reference, folder, program, names)
        if len(reference) < 3:
            problems.append(f"libgcc saw only {reference}")
        if not why.endswith("the stack ends here"):
            problems.append(f"it says: {why}")
        tap.check(f"{label}: {scene}: the frames are those that libgcc sees", problems)
    for scene, names in BLIND + (X86_BLIND if X86 else []):
        folder = root / scene
        take(program, scene, folder)
        frames, _ = unwind(uprobectl, folder)
        tap.check(f"{label}: {scene}: the frames are those that were called",
                  compare(frames, None, folder, program, names))


def separate_debug_file(tap, uprobectl, label, program, root):
    """strip moves .debug_frame and the names into a file of their own."""
    scene, names = BLIND[0]
    for how in ("named", "by build id", "by debug link"):
        folder = root / how.replace(" ", "-")
        folder.mkdir()
        stripped, debug = folder / "scenes", folder / "symbols"
        debug.mkdir()
        separate = debug / "scenes.debug"
        problems = []
        run("objcopy", "--only-keep-debug", program, separate)
        run("strip", "-o", stripped, program)
        if how == "by build id":
            note = run("readelf", "-n", program).stdout
            build_id = re.search(r"Build ID: ([0-9a-f]+)", note)
            if build_id is None:
                continue
            id_folder = debug / ".build-id" / build_id[1][:2]
            id_folder.mkdir(parents=True)
            separate.rename(id_folder / f"{build_id[1][2:]}.debug")
        if how == "by debug link":
            run("objcopy", f"--add-gnu-debuglink={separate}", stripped)
            separate.rename(folder / "scenes.debug")
        saved = folder / "saved"
        take(stripped, scene, saved)
        options = [] if how == "by debug link" else ["--debug-dir", debug]
        done = run(uprobectl, "debug-unwind", "--json", *options, saved)
        frames = [json.loads(line) for line in done.stdout.splitlines()]
        found = own_names(frames, stripped)
        if [n for n in found if n != "_start"] != names:
            problems.append(f"the program's functions are {found[:12]}, not {names}; {done.stderr}")
        if guessed := [f for f in frames if f["found_by"] in ("frame_pointer", "link_register")]:
            problems.append(f"guessed: {guessed}")
        tap.check(f"{label}: .debug_frame of a debug file that is found {how}", problems)


def short_stack(tap, uprobectl, program, root):
    folder = root / "short"
    reference = take(program, "deep", folder, "1024")
    frames, why = unwind(uprobectl, folder)
    pcs = [int(f["pc"], 16) for f in frames]
    problems = [] if 10 < len(pcs) < 300 and pcs == reference[:len(pcs)] else [f"{len(pcs)} frames"]
    if "the saved stack does not have the bytes at 0x" not in why:
        problems.append(f"it says: {why}")
    tap.check("a stack longer than the saved bytes ends with the missing address", problems)


def embedded_debug_frame(tap, uprobectl, program, root):
    """.debug_frame in .gnu_debugdata alone."""
    folder = root / "embedded"
    take(program, "debug-frame", folder)
    parts = [root / name for name in ("debug", "debug.xz", "without", "with")]
    for step in (["objcopy", "--only-keep-debug", "-R", ".debug_info", "-R", ".debug_str", program, parts[0]],
                 ["objcopy", "--strip-debug", program, parts[2]]):
        run(*map(str, step), check=True)
    parts[1].write_bytes(lzma.compress(parts[0].read_bytes()))
    replaced(folder, program.name, parts[2].read_bytes())
    names = dict(BLIND)["debug-frame"]
    lost = own_names(unwind(uprobectl, folder)[0], program)
    run("objcopy", "--add-section", f".gnu_debugdata={parts[1]}", str(parts[2]), str(parts[3]), check=True)
    replaced(folder, program.name, parts[3].read_bytes())
    frames, _ = unwind(uprobectl, folder)
    problems = compare(frames, None, folder, program, names)
    if lost[:3] == names[:3]:
        problems.append("without .debug_frame the frames are the same")
    tap.check(".debug_frame in .gnu_debugdata is used", problems)


def replaced(folder, name, data):
    (folder / name).unlink()
    (folder / name).write_bytes(data)


def variations(tap, uprobectl, program, root):
    data = program.read_bytes()

    folder = root / "gzipped"
    reference = take(program, "library", folder)
    (folder / program.name).unlink()
    (folder / (program.name + ".gz")).write_bytes(gzip.compress(data))
    for name in ("maps.txt", "regs.txt", "stack0.data"):
        (folder / (name + ".gz")).write_bytes(gzip.compress((folder / name).read_bytes()))
    for name in ("regs.txt", "stack0.data"):
        (folder / name).unlink()
    frames, _ = unwind(uprobectl, folder)
    tap.check("files may be gzipped", compare(frames, reference, folder, program, None))

    # .eh_frame_hdr: rows that lead from each function to another's entry.
    for kind in ("points to other entries", "is not sorted", "claims to be empty", "has no known version"):
        folder = root / kind.replace(" ", "-")
        reference = take(program, "library", folder)
        replaced(folder, program.name, broken_header(data, kind))
        frames, _ = unwind(uprobectl, folder)
        tap.check(f"an .eh_frame_hdr that {kind} loses no frames",
                  compare(frames, reference, folder, program, None))

    folder = root / "archive"
    reference = take(program, "library", folder)
    in_archive(tap, uprobectl, folder, reference, program, data)


def header_offset(data):
    """Offset of .eh_frame_hdr, from PT_GNU_EH_FRAME."""
    table, = struct.unpack_from("<Q", data, 0x20)
    entry_size, count = struct.unpack_from("<HH", data, 0x36)
    for i in range(count):
        kind, _, offset = struct.unpack_from("<IIQ", data, table + i * entry_size)
        if kind == 0x6474e550:
            return offset
    raise ValueError("no PT_GNU_EH_FRAME")


def broken_header(data, kind):
    data = bytearray(data)
    at = header_offset(data)
    count, = struct.unpack_from("<I", data, at + 8)
    rows = [struct.unpack_from("<ii", data, at + 12 + 8 * i) for i in range(count)]
    if kind == "points to other entries":
        rows = [(row[0], rows[(i + 3) % count][1]) for i, row in enumerate(rows)]
    elif kind == "is not sorted":
        rows.reverse()
    elif kind == "claims to be empty":
        struct.pack_into("<I", data, at + 8, 0)
    else:
        data[at] = 9
    for i, row in enumerate(rows):
        struct.pack_into("<ii", data, at + 12 + 8 * i, *row)
    return bytes(data)


def in_archive(tap, uprobectl, folder, reference, program, data):
    """The same stack as if the program had been mapped from an archive, and from a file that is none."""
    page, name = 0x4000, "lib/x/libscenes.so"
    local = struct.pack("<IHHHHHIIIHH", 0x04034b50, 20, 0, 0, 0, 0, zlib.crc32(data), len(data), len(data),
                        len(name), page - 30 - len(name))
    local += name.encode() + bytes(page - 30 - len(name))
    central = struct.pack("<IHHHHHHIIIHHHHHII", 0x02014b50, 20, 20, 0, 0, 0, 0, zlib.crc32(data), len(data),
                          len(data), len(name), 0, 0, 0, 0, 0, 0) + name.encode()
    end = struct.pack("<IHHHHIIH", 0x06054b50, 0, 0, 1, 1, len(central), page + len(data), 0)
    text = "".join(
        line if str(program) not in line else re.sub(
            r"^(\S+ \S+ )(\S+)", lambda m: f"{m[1]}{int(m[2], 16) + page:08x}", line).replace(
                str(program), "/data/app/base.apk")
        for line in (folder / "maps.txt").read_text().splitlines(keepends=True))
    plain, _ = unwind(uprobectl, folder)
    (folder / program.name).unlink()
    (folder / "maps.txt").write_text(text)
    for label, archive, entry in (
            ("an archive", local + data + central + end, name),
            ("a file that begins with something else", bytes(page) + data, None)):
        (folder / "base.apk").write_bytes(archive)
        frames, _ = unwind(uprobectl, folder)
        expected = [dict(f, file="/data/app/base.apk", entry=entry) if f["file"] == str(program) else f
                    for f in plain]
        tap.check(f"a library mapped from inside of {label} is found there",
                  [] if frames == expected and len(frames) == len(reference) else [f"{frames}\n{expected}"])


def corpus(tap, uprobectl):
    corpus_folder = os.environ.get("UPROBECTL_CORPUS")
    if not corpus_folder:
        tap.skip("the corpus' stacks", "UPROBECTL_CORPUS is not set")
        return
    row = re.compile(r"\s*#\d+ pc ([0-9a-f]+)  \S+(?: \(offset 0x[0-9a-f]+\))?(?: \((.*)\))?$")
    for folder in sorted((Path(corpus_folder) / "unwind").iterdir()):
        frames, _ = unwind(uprobectl, folder)
        problems = []
        reference = [row.match(line).groups() for line in (folder / "output.txt").read_text().splitlines()]
        if folder.name == "load_bias_ro_rx_x86_64":  # nothing unwinds through the missing program
            reference, frames = reference[:8], frames[:8]
        for index, (address, name) in enumerate(reference):
            frame = frames[index] if index < len(frames) else {}
            symbol = frame.get("demangled") or frame.get("symbol")
            if symbol and int(frame["symbol_offset"], 16):
                symbol += f"+{int(frame['symbol_offset'], 16)}"
            if frame.get("file") in UNREADABLE.get(folder.name, ()):  # its addresses are not known
                address, name = "-1", None
            if (int(frame.get("module_address") or "-1", 16), symbol) != (int(address, 16), name):
                problems.append(f"{index}: {frame}, not {address} {name}")
        if len(frames) != len(reference):
            problems.append(f"{len(frames)} frames, not {len(reference)}")
        tap.check(f"corpus: {folder.name}: each address and name is as expected", problems)


def main():
    uprobectl, sources = str(Path(sys.argv[1]).resolve()), Path(sys.argv[2])
    tap = Tap()
    compilers = [pair for pair in (("gcc", "g++"), ("clang-19", "clang++-19")) if shutil.which(pair[1])]
    with tempfile.TemporaryDirectory() as root:
        for number, pair in enumerate(compilers):
            folder = Path(root) / pair[0]
            folder.mkdir()
            program, problem = build(pair, sources, folder)
            if problem is not None:
                tap.fail(f"{pair[1]}: the program is built", problem)
                continue
            scenes(tap, uprobectl, pair[1], program, folder)
            if number == 0:
                separate_debug_file(tap, uprobectl, pair[1], program, folder)
                short_stack(tap, uprobectl, program, folder)
                embedded_debug_frame(tap, uprobectl, program, folder)
                variations(tap, uprobectl, program, folder)
    corpus(tap, uprobectl)
    tap.done()


main()
