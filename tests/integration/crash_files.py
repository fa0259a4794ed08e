#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""crash_files.py UPROBECTL TOMBSTONE_PROTO
Crash reports as devices and consoles write them: tombstones in protobuf, which protoc encodes, bug
reports that Python's zipfile packs, text of minidumps, of lldb and of the Play Console. The names and
lines of frames are those of the source below. Then files that are damaged or too large. Prints TAP."""

import json
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap

UPROBECTL, PROTO = sys.argv[1], Path(sys.argv[2])
SOURCE = """volatile int sink;
__attribute__((noinline)) int leaf(int x) {
  sink = x;
  return sink + 1;
}
__attribute__((noinline)) int outer(int x) {
  int sum = leaf(x) * 3;
  sink = sum;
  return sum + sink;
}
"""
FINGERPRINT = "google/shiba/shiba:15/AP3A.241005.015/12366759:user/release-keys"

tap = Tap()


def expect_equal(name, found, expected):
    tap.check(name, [] if found == expected else [f"found:\n{found}", f"expected:\n{expected}"])


def run(*words, stdin=None):
    done = subprocess.run([UPROBECTL, "symbolize", *map(str, words)], input=stdin, capture_output=True)
    return done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")


def records(*words, stdin=None):
    return [json.loads(line) for line in run("--json", "--quiet", *words, stdin=stdin)[1].splitlines()]


def encode(text):
    return subprocess.run(["protoc", f"--proto_path={PROTO.parent}", "--encode=Tombstone", PROTO.name],
                          input=text.encode(), capture_output=True, check=True).stdout


def make_library(folder):
    """Its path, build id, and addresses: of the functions, of the instruction after the call in outer."""
    (folder / "shop.c").write_text(SOURCE)
    subprocess.run(["gcc", "-g", "-O1", "-shared", "-fPIC", "-nostdlib", "-Wl,--build-id=sha1", "shop.c", "-o",
                    "libshop.so"], cwd=folder, check=True)
    library = folder / "libshop.so"
    build_id = re.search("Build ID: ([0-9a-f]+)", subprocess.run(
        ["readelf", "-n", library], capture_output=True, text=True, check=True).stdout)[1]
    begins = {name: int(address, 16) for address, name in re.findall(
        r"^([0-9a-f]+) T (\w+)$", subprocess.run(["nm", library], capture_output=True, text=True, check=True).stdout,
        re.M)}
    listing = subprocess.run(["objdump", "-d", "--no-show-raw-insn", library], capture_output=True, text=True,
                             check=True).stdout
    after_call = int(re.search(r"call +[0-9a-f]+ <leaf(?:@plt)?>\n +([0-9a-f]+):", listing)[1], 16)
    return library, build_id, begins["leaf"], begins["outer"], after_call


def frame(address, path, build_id="", function="", offset=0, begin=0):
    text = f'rel_pc: {address} pc: {address + 0x7f0000000000} file_name: "{path}"'
    if function:
        text += f' function_name: "{function}" function_offset: {offset}'
    if begin:
        text += f" file_map_offset: {begin}"
    return text + (f' build_id: "{build_id}"' if build_id else "")


def tombstone(build_id, leaf, call):
    return f"""
arch: X86_64 build_fingerprint: "{FINGERPRINT}" revision: "MP1.0" timestamp: "2026-11-25 03:01:00.123456789+0000"
pid: 4711 tid: 4713 uid: 10234 command_line: "com.example.shop" command_line: "--fast" process_uptime: 12
page_size: 16384
signal_info {{ number: 11 name: "SIGSEGV" code: 1 code_name: "SEGV_MAPERR" has_fault_address: true fault_address: 16 }}
abort_message: "first line\\nsecond line"
crash_details {{ name: "extra" data: "a\\001b" }}
causes {{ human_readable: "[GWP-ASan]: Use After Free" memory_error {{ heap {{ allocation_tid: 5 deallocation_tid: 6
  allocation_backtrace {{ {frame(leaf, "/data/app/x/libshop.so", build_id)} }}
  deallocation_backtrace {{ {frame(call - 1, "/data/app/x/libshop.so", build_id)} }} }} }} }}
threads {{ key: 4800 value {{ id: 4800 name: "Binder" current_backtrace {{ {frame(0x10, "/system/lib64/libc.so", "", "poll", 8)} }} }} }}
threads {{ key: 4713 value {{ id: 4713 name: "till\\nx" registers {{ name: "rax" u64: 1 }} backtrace_note: "a note"
  current_backtrace {{ {frame(leaf, "/data/app/x/base.apk!libshop.so", build_id, "leaf", 0, 0x4000)} }}
  current_backtrace {{ {frame(call - 1, "/data/app/x/libshop.so", build_id)} }} }} }}
threads {{ key: 4711 value {{ id: 4711 name: "main" current_backtrace {{ {frame(0x20, "", "")} }} }} }}
memory_mappings {{ begin_address: 4096 end_address: 8192 mapping_name: "/x" }}
log_buffers {{ name: "main" logs {{ message: "#00 pc 0000000000001234  /data/app/x/libshop.so" }} }}
future: "not known yet"
"""


def tombstone_text(build_id, leaf, call):
    """The text of the tombstone above with the names of its frames."""
    return f"""\
*** *** *** *** *** *** *** *** *** *** *** *** *** *** *** ***
Build fingerprint: '{FINGERPRINT}'
Revision: 'MP1.0'
ABI: 'x86_64'
Timestamp: 2026-11-25 03:01:00.123456789+0000
Process uptime: 12s
Page size: 16384 bytes
Cmdline: com.example.shop --fast
pid: 4711, tid: 4713, name: till?x  >>> com.example.shop <<<
uid: 10234
signal 11 (SIGSEGV), code 1 (SEGV_MAPERR), fault addr 0x0000000000000010
Cause: [GWP-ASan]: Use After Free
Abort message: 'first line
second line'
Extra crash detail: extra: 'a\\001b'

2 total frames
backtrace:
  NOTE: a note
      #00 pc {leaf:016x}  /data/app/x/base.apk!libshop.so (offset 0x4000) (leaf+0) (BuildId: {build_id})
          leaf at shop.c:3
      #01 pc {call - 1:016x}  /data/app/x/libshop.so (BuildId: {build_id})
          outer+ at shop.c:7

deallocated by thread 6:
      #00 pc {call - 1:016x}  /data/app/x/libshop.so (BuildId: {build_id})
          outer+ at shop.c:7

allocated by thread 5:
      #00 pc {leaf:016x}  /data/app/x/libshop.so (BuildId: {build_id})
          leaf at shop.c:3
--- --- --- --- --- --- --- --- --- --- --- --- --- --- --- ---
Cmdline: com.example.shop --fast
pid: 4711, tid: 4711, name: main  >>> com.example.shop <<<
uid: 10234

1 total frames
backtrace:
      #00 pc 0000000000000020  <unknown>
--- --- --- --- --- --- --- --- --- --- --- --- --- --- --- ---
Cmdline: com.example.shop --fast
pid: 4711, tid: 4800, name: Binder  >>> com.example.shop <<<
uid: 10234

1 total frames
backtrace:
      #00 pc 0000000000000010  /system/lib64/libc.so (poll+8)

(not shown: registers, memory, memory map, open files, logs)
"""


def plain(text):
    """Without folders and columns of the source, and without the offset of the call."""
    return re.sub(r"(\w+)(\+0x[0-9a-f]+)? at \S*/(shop\.c:\d+):\d+", lambda found: (
        f"{found[1]}{'+' if found[2] else ''} at {found[3]}"), text)


def test_protobuf(folder, library, build_id, leaf, call):
    data = encode(tombstone(build_id, leaf, call))
    report = folder / "report"  # what it is, its content says
    report.write_bytes(data)
    status, out, errors = run("--symbols", folder, report)
    expect_equal("a tombstone in protobuf is shown as its text, with names", (status, plain(out)),
                 (0, tombstone_text(build_id, leaf, call)))
    expect_equal("only its frame without a file with symbols is warned about", errors.count("warning"), 1)
    expect_equal("the same from a pipe", run("--symbols", folder, "-", stdin=data)[1], out)

    found = [(each["index"], each["symbol"], each["line"], each["build_id"], each["report"])
             for each in records("--symbols", folder, report)]
    expect_equal("records of its frames", found, [
        (0, "leaf", 3, build_id, None), (1, "outer", 7, build_id, None), (0, "outer", 7, build_id, None),
        (0, "leaf", 3, build_id, None), (0, None, None, None, None), (0, "poll", None, None, None)])

    arm = encode(f'build_fingerprint: "{FINGERPRINT}" pid: 1 tid: 2 command_line: "a" threads {{ key: 2 value {{ id: 2 '
                 f'current_backtrace {{ {frame(0x1234, "/system/lib/libc.so", "ab01", "abort", 4)} }} }} }}')
    text = run("-q", "-", stdin=arm)[1]
    tap.check("a tombstone of 32-bit ARM has no field of its architecture, and short addresses",
              [] if "ABI: 'arm'\n" in text and "\n      #00 pc 00001234  /system/lib/libc.so (abort+4) (BuildId: ab01)\n"
              in text and "signal information missing" in text else [text])

    long = encode(f'arch: ARM64 build_fingerprint: "{FINGERPRINT.rjust(200, "x")}" pid: 1 tid: 2 threads {{ key: 2 '
                  f'value {{ id: 2 current_backtrace {{ {frame(0x1234, "/a.so")} }} }} }}')
    tap.check("the fingerprint may be long", [] if "#00 pc 0000000000001234  /a.so\n" in run("-q", "-", stdin=long)[1]
              else ["it is not taken for a tombstone"])

    guest = encode(f'arch: X86_64 guest_arch: ARM64 build_fingerprint: "{FINGERPRINT}" pid: 1 tid: 2 '
                   f'threads {{ key: 2 value {{ id: 2 current_backtrace {{ {frame(1, "/a.so")} }} }} }} '
                   f'guest_threads {{ key: 2 value {{ id: 2 current_backtrace {{ {frame(2, "/guest.so", "", "g", 3)} }} }} }}')
    text = run("-q", "-", stdin=guest)[1]
    tap.check("the stack of translated code is shown too",
              [] if "Guest architecture: 'arm64'\n" in text and "Guest thread information for tid: 2\n" in text and
              "#00 pc 0000000000000002  /guest.so (g+3)\n" in text else [text])

    problems = []
    for size in range(16, len(data)):
        status, _, errors = run("--json", "-", stdin=data[:size])
        if status == 0 and not errors:
            problems.append(f"{size} of {len(data)} bytes are taken without a word")
        if status not in (0, 1):
            problems.append(f"{size} bytes: status {status}: {errors}")
    tap.check("a tombstone that ends early is an error", problems[:5])
    status, _, errors = run("-", stdin=data[:-3])
    expect_equal("the error names the byte", (status, re.sub("0x[0-9a-f]+", "0x", errors)),
                 (1, "uprobectl: error: standard input: byte 0x: field 900 is truncated\n"))


def test_bug_report(folder, library, build_id, leaf, call):
    data = encode(tombstone(build_id, leaf, call))
    line = f"#00 pc {leaf:016x}  /data/app/x/libshop.so (BuildId: {build_id})\n"
    named = "    leaf at shop.c:3\n"
    main = f"""== dumpstate: 2026-11-25 03:01:00
Build fingerprint: '{FINGERPRINT}'
------ UPTIME (uptime) ------
  {line}------ 0.005s was the duration of 'UPTIME' ------
------ SYSTEM LOG (logcat -v threadtime -v printable -d *:v) ------
--------- beginning of main
  {line}------ 0.010s was the duration of 'SYSTEM LOG' ------
  {line}------ VM TRACES JUST NOW (/data/anr/dumptrace_x) ------
  native: {line}------ 0.2s was the duration of 'VM TRACES JUST NOW' ------
"""
    inner = folder / "inner.zip"
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("tombstone_09", line)
    report = folder / "bugreport.zip"
    with zipfile.ZipFile(report, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("version.txt", "2.0")
        archive.writestr("main_entry.txt", "bugreport-shiba-AP3A-2026-11-25.txt")
        archive.writestr("FS/data/tombstones/", "")
        archive.writestr("FS/data/tombstones/tombstone_00.pb", data)
        archive.writestr("FS/data/tombstones/tombstone_00", "  " + line)
        archive.writestr("FS/data/tombstones/tombstone_01.pb", data)
        archive.writestr("FS/data/tombstones/tombstone_02.pb", data[:100])
        archive.writestr("FS/data/tombstones/tombstone_03", inner.read_bytes())
        archive.writestr("FS/data/anr/anr_2026-11-25-03-01-00-123", "  native: " + line.rstrip())
        archive.writestr("FS/proc/1/maps", line)
        archive.writestr("FS/data/misc/logd/logcat.01", "  " + line, zipfile.ZIP_STORED)
        archive.writestr("bugreport-shiba-AP3A-2026-11-25.txt", main)
    status, out, errors = run("--symbols", library, report)
    entries = f"{report}!/FS/data/"
    expect_equal("all reports of a bug report are named, each once", plain(out), f"""\
{entries}tombstones/tombstone_00:
  {line}  {named}
{entries}tombstones/tombstone_01.pb:
{tombstone_text(build_id, leaf, call)}
{entries}tombstones/tombstone_02.pb:

{entries}anr/anr_2026-11-25-03-01-00-123:
  native: {line}          {named}
{entries}misc/logd/logcat.01:
  {line}  {named}
{report}!/bugreport-shiba-AP3A-2026-11-25.txt:
------ SYSTEM LOG (logcat -v threadtime -v printable -d *:v) ------
--------- beginning of main
  {line}  {named}------ 0.010s was the duration of 'SYSTEM LOG' ------
------ VM TRACES JUST NOW (/data/anr/dumptrace_x) ------
  native: {line}          {named}------ 0.2s was the duration of 'VM TRACES JUST NOW' ------
""")
    tap.check("a damaged report is an error and the others are read", [] if status == 1 and re.search(
        "error: .*tombstone_02.pb: byte 0x[0-9a-f]+: field .* is truncated", errors) else [status, errors])
    tap.check("an archive in the archive is not followed",
              [] if f"{entries}tombstones/tombstone_03: not read: an archive in the archive" in errors else [errors])
    found = [(each["report"].removeprefix("FS/data/"), each["report_line"], each["symbol"])
             for each in records("--symbols", library, report) if each["type"] == "frame" and each["symbol"] == "leaf"]
    expect_equal("records name the report and its line", found, [
        ("tombstones/tombstone_00", 1, "leaf"), ("tombstones/tombstone_01.pb", 20, "leaf"),
        ("tombstones/tombstone_01.pb", 27, "leaf"), ("anr/anr_2026-11-25-03-01-00-123", 1, "leaf"),
        ("misc/logd/logcat.01", 1, "leaf"), ("bugreport-shiba-AP3A-2026-11-25.txt", 8, "leaf"),
        ("bugreport-shiba-AP3A-2026-11-25.txt", 12, "leaf")])
    expect_equal("the same from a pipe", plain(run("--symbols", library, "-", stdin=report.read_bytes())[1]),
                 plain(out).replace(str(report), "standard input"))

    bomb = folder / "bomb.zip"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        with archive.open("tombstone_00", "w", force_zip64=True) as entry:
            for _ in range(257):
                entry.write(b"a" * (1 << 20))
        archive.writestr("tombstone_01", "  " + line)
    status, out, errors = run("--json", "--symbols", library, bomb)
    expect_equal("of a report that is too large the first part is read, and the next one whole",
                 (status, errors, out.count('"symbol":"leaf"')),
                 (0, f"uprobectl: warning: {bomb}!/tombstone_00: only its first 268435456 bytes are read\n", 1))

    empty = folder / "empty.zip"
    with zipfile.ZipFile(empty, "w") as archive:
        archive.writestr("README", line)
    status, out, errors = run(empty)
    expect_equal("an archive without reports is an error", (status, out, errors.splitlines()[0]),
                 (1, "", f"uprobectl: error: {empty}: no reports in this archive"))
    (folder / "short.zip").write_bytes(report.read_bytes()[:200])
    status, out, errors = run(folder / "short.zip")
    tap.check("a truncated bug report is an error", [] if (status, out) == (1, "") and "error" in errors else [errors])


def test_texts(folder, library, build_id, leaf, outer, call):
    in_leaf, after = leaf + 4, call - outer
    minidump = f"""Crash reason:  SIGSEGV /SEGV_MAPERR
Thread 0 (crashed)
 0  libshop.so + {leaf:#x}
    rax = 0x0000000000000001   rdx = 0x0000000000000002
 1  libshop.so!outer + {after:#x}
 2  libshop.so + {call:#x}
 3  libshop.so!missing + 0x4
 4  libshop.so!outer [shop.c : 7 + 0x4]
10  0x7f0012345678
  * frame #1: 0x00007f0000001234 libshop.so`outer + {after}
    frame #2: 0x00007f0000001234 libshop.so`outer(x=1) at shop.c:7:13
"""
    found = [(each["report_line"], each["index"], each["pc"], each["symbol"], each["line"])
             for each in records("--symbols", library, "-", stdin=minidump.encode())]
    expect_equal("frames of minidumps and of lldb have the line of the call", found, [
        (3, 0, None, "leaf", 3), (5, 1, None, "outer", 7), (6, 2, None, "outer", 7), (7, 3, None, "missing", None),
        (10, 1, "0x7f0000001234", "outer", 7)])
    status, out, errors = run("--symbols", library, "-", stdin=minidump.encode())
    expect_equal("their text is copied, and names are below", plain(out).splitlines()[2:6], [
        f" 0  libshop.so + {leaf:#x}", "     leaf at shop.c:3",
        "    rax = 0x0000000000000001   rdx = 0x0000000000000002", f" 1  libshop.so!outer + {after:#x}"])
    expect_equal("what is not sure is said", errors.splitlines(), [
        f"uprobectl: warning: libshop.so: {library} has no function 'missing', or several",
        f"uprobectl: warning: libshop.so: the report has no build id, {library} may be of another build"])

    console = f"""\
*** *** *** *** *** *** *** *** *** *** *** *** *** *** *** ***
pid: 0, tid: 4713 >>> com.example.shop <<<

backtrace:
  #00  pc 0x{in_leaf:016x}  /data/app/~~a==/com.example.shop-b==/lib/x86_64/libshop.so (BuildId: {build_id})
  #01  pc 0x{call - 1:016x}  libshop.so (BuildId: {build_id[:12]}…)
  #02  pc 0x{call - 1:016x}  /data/app/~~a==/split_config.x86_64.apk!libshop.so (offset 0x4000) (BuildId: {build_id})
  at a.b.a (SourceFile:2)
  at a.b.a (Unknown Source:2)
"""
    mapping = folder / "mapping.txt"
    mapping.write_text('org.shop.Till -> a.b:\n# {"id":"sourceFile","fileName":"Till.kt"}\n    1:3:int sell(int):21 -> a\n')
    found = [(each["report_line"], each["symbol"], each["demangled"], each["source"] and Path(each["source"]).name,
              each["line"]) for each in records("--symbols", library, "--mapping", mapping, "-", stdin=console.encode())]
    expect_equal("stacks of the Play Console have native and Java names", found, [
        (5, "leaf", None, "shop.c", 3), (6, "outer", None, "shop.c", 7), (7, "outer", None, "shop.c", 7),
        (8, "a.b.a", "org.shop.Till.sell", "Till.kt", 21), (9, "a.b.a", "org.shop.Till.sell", "Till.kt", 21)])
    trace = f"  native: #01 pc {leaf:016x}  /data/app/x/libshop.so (???)\n"
    expect_equal("an ANR trace without a name does not contradict ours",
                 run("--symbols", library, "-", stdin=trace.encode())[2],
                 f"uprobectl: warning: libshop.so: the report has no build id, {library} may be of another build\n")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        library, build_id, leaf, outer, call = make_library(folder)
        test_protobuf(folder, library, build_id, leaf, call)
        test_bug_report(folder, library, build_id, leaf, call)
        test_texts(folder, library, build_id, leaf, outer, call)
    tap.done()


main()
