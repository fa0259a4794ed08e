#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""symbolize_agreement.py UPROBECTL
`uprobectl symbolize` against llvm-symbolizer: reports of each kind with every address of a library in
them, the library as whole, with a debug file of its own, in a .build-id folder, in a ZIP of symbol
files and in an APK; callers as each tool prints them, for x86-64 and arm64; a crash under a sanitizer
against the sanitizer's own names. Then streams, long lines and junk. Prints TAP."""

import json
import os
import re
import resource
import select
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from tap import Tap

SYMBOLIZER = "llvm-symbolizer-19"
SOURCE = """
extern "C" void abort();
volatile int sink;
namespace shop {
struct Item { int price; void pay(int much) { sink += much; price = sink; } };
template <typename T> inline T twice(T x) { sink = x; return x + sink; }
static inline int tiny(int x) { sink = x; return twice(x) + 1; }
__attribute__((noinline)) int leaf(int x) { sink = x; return sink; }
template <typename T> __attribute__((noinline)) T thrice(T x) { return leaf(x) + leaf(x + 1) * 2; }
__attribute__((noinline)) int middle(int x) { return leaf(x) * 3 + leaf(x + 2); }
__attribute__((noinline)) int middle(Item& item, int x) {
  item.pay(tiny(x));
  int sum = leaf(x) + thrice(x);
  for (int i = 0; i < x; ++i) sum += leaf(i) + tiny(i);
  return sum;
}
}
extern "C" __attribute__((noinline)) int outer(int x) {
  shop::Item item{x};
  int sum = shop::middle(item, x) * 2 + shop::middle(x);
  if (sum > 1000) abort();
  return sum + shop::middle(item, x + 1);
}
"""


def expect(tap, name, holds, why=""):
    tap.check(name, [] if holds else [why or "it does not"])


def run(*words, **more):
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, **more)


def build_library(folder, *command):
    folder.mkdir(parents=True)
    (folder / "shop.cpp").write_text(SOURCE)
    library = folder / "libshop.so"
    run(*command, "-g", "-O2", "-fPIC", "-shared", "-nostdlib", "-Wl,--build-id=sha1", "shop.cpp", "-o",
        library, cwd=folder)
    return library


def build_id_of(binary):
    notes = subprocess.run(["readelf", "-n", binary], capture_output=True, text=True).stdout
    return re.search(r"Build ID: ([0-9a-f]+)", notes)[1]


def instructions_of(binary):
    """(address, mnemonic) of each instruction in .text."""
    text = subprocess.run(["llvm-objdump-19", "-d", "--no-show-raw-insn", "-j", ".text", binary], check=True,
                          capture_output=True, text=True).stdout
    return [(int(address, 16), name) for address, name in re.findall(r"^\s+([0-9a-f]+):\s+(\S+)", text, re.M)]


def expected_frames(binary, addresses):
    """For each address llvm-symbolizer's frames, the innermost first."""
    asked = "".join(f"{address:#x}\n" for address in addresses)
    text = subprocess.run([SYMBOLIZER, "--inlines", "--no-demangle", "--output-style=JSON", f"--obj={binary}"],
                          input=asked, capture_output=True, text=True, check=True).stdout
    answers = [json.loads(line) for line in text.splitlines()]
    answers = [each for answer in answers for each in (answer if isinstance(answer, list) else [answer])]
    return [[(frame["FunctionName"] or None, frame["FileName"] or None, frame["Line"] or None, frame["Column"] or None)
             for frame in answer["Symbol"]] for answer in answers]


def our_frames(uprobectl, report, *options):
    """For each line of the report the frames, and what else was said."""
    done = subprocess.run([uprobectl, "symbolize", "--json", *map(str, options), "-"], input=report,
                          capture_output=True, text=True)
    frames = {}
    for line in done.stdout.splitlines():
        record = json.loads(line)
        frames.setdefault(record["report_line"], []).append(
            (record["symbol"], record["source"], record["line"], record["column"]))
    # The made reports have one name for all addresses.
    said = [line for line in done.stderr.splitlines(keepends=True) if "one of the names is wrong" not in line]
    return [frames.get(number + 1) for number in range(report.count("\n"))], "".join(said)


def differences(ours, theirs, addresses):
    if len(ours) != len(theirs):
        return [f"{len(ours)} and {len(theirs)} answers"]
    return [f"{address:#x}: {one}, not {other}" for address, one, other in zip(addresses, ours, theirs)
            if one != other][:5]


def tombstone(addresses, build_id, path="/data/app/~~x==/com.example/lib/x86_64/libshop.so"):
    suffix = f" (BuildId: {build_id})" if build_id else ""
    return "".join(f"      #{i % 100:02} pc {address:016x}  {path} (outer+12){suffix}\n"
                   for i, address in enumerate(addresses))


def logcat(addresses, build_id):
    return "".join(f"11-25 03:01:00.123  1234  1234 F DEBUG   :       #{i % 100:02} pc {address:016x}  "
                   f"/data/app/~~x==/com.example/base.apk!libshop.so (offset 0x4000) (shop::middle(shop::Item&, int)+8)"
                   f" (BuildId: {build_id})\n" for i, address in enumerate(addresses))


def anr(addresses, build_id):
    return "".join(f"  native: #{i % 100:02} pc {address:016x}  /data/app/x/lib/x86_64/libshop.so (outer+36)"
                   f" (BuildId: {build_id})\n" for i, address in enumerate(addresses))


def play_console(addresses, _):
    return "".join(f"  #{i % 100:02}  pc 0x{address:016x}  /data/app/x/lib/x86_64/libshop.so\n"
                   for i, address in enumerate(addresses))


def sanitizer(addresses, build_id):
    return "".join(f"    #{i} 0x{0x7f0000000000 + address:x}  (/data/app/x/base.apk!/lib/x86_64/libshop.so+0x{address:x})"
                   f" (BuildId: {build_id})\n" for i, address in enumerate(addresses))


def symbol_paths_of(library, folder):
    """How the library's symbols can be at hand: (name, --symbols)."""
    whole = folder / "whole"
    whole.mkdir()
    shutil.copy(library, whole)
    debug = folder / "debug" / "elsewhere"
    debug.mkdir(parents=True)
    run("objcopy", "--only-keep-debug", library, debug / "libshop.so.debug")
    build_id = build_id_of(library)
    by_id = folder / "by-id" / ".build-id" / build_id[:2]
    by_id.mkdir(parents=True)
    shutil.copy(debug / "libshop.so.debug", by_id / f"{build_id[2:]}.debug")
    renamed = folder / "renamed"
    renamed.mkdir()
    shutil.copy(library, renamed / "build-4711.bin")
    symbols = folder / "native-debug-symbols.zip"
    with zipfile.ZipFile(symbols, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(library, "x86_64/libshop.so.dbg")
        archive.writestr("arm64-v8a/libshop.so.dbg", b"\x7fELF damaged")
    apk = folder / "apks"
    apk.mkdir()
    with zipfile.ZipFile(apk / "base.apk", "w", zipfile.ZIP_STORED) as archive:
        archive.write(library, "lib/x86_64/libshop.so")
    both = folder / "both"
    both.mkdir()
    run("strip", "-o", both / "libshop.so", library)
    shutil.copy(debug / "libshop.so.debug", both)
    return {"a folder": whole, "the file": library, "a debug file": debug.parent, "a .build-id folder": folder / "by-id",
            "a file of another name": renamed, "a ZIP of symbol files": symbols, "an APK": apk,
            "a stripped file and its debug file": both}


def check_reports(tap, uprobectl, folder):
    library = build_library(folder / "x86-64", "g++")
    build_id = build_id_of(library)
    addresses = [address for address, _ in instructions_of(library)]
    # Padding between functions belongs to none.
    known = [(address, frames) for address, frames in zip(addresses, expected_frames(library, addresses))
             if any(any(frame) for frame in frames)]
    addresses, theirs = [list(each) for each in zip(*known)]
    assert len(addresses) > 60 and any(len(frames) > 2 for frames in theirs)
    for name, write in {"tombstones": tombstone, "logcat": logcat, "ANR traces": anr, "sanitizers": sanitizer}.items():
        ours, said = our_frames(uprobectl, write(addresses, build_id), "--symbols", library.parent)
        expect(tap, f"frames of {name} are those of llvm-symbolizer", not (found := differences(ours, theirs, addresses))
                  and not said, f"{found} {said}")
    ours, said = our_frames(uprobectl, play_console(addresses, None), "--symbols", library.parent)
    expect(tap, "a module without build id is found by its name, with a warning",
              not (found := differences(ours, theirs, addresses)) and "may be of another build" in said, f"{found} {said}")
    for name, path in symbol_paths_of(library, folder).items():
        ours, said = our_frames(uprobectl, tombstone(addresses, build_id), "--symbols", path)
        expect(tap, f"symbols are found in {name}", not (found := differences(ours, theirs, addresses)) and not said,
                  f"{found} {said}")
    offset = None
    with zipfile.ZipFile(folder / "apks/base.apk") as archive:
        entry = archive.getinfo("lib/x86_64/libshop.so")
        offset = entry.header_offset + 30 + len(entry.filename)
    report = tombstone(addresses, None, path=f"/data/app/x/base.apk (offset {offset:#x})")
    ours, said = our_frames(uprobectl, report, "--symbols", folder / "apks")
    expect(tap, "a library is found by its offset in an APK", not (found := differences(ours, theirs, addresses)),
              f"{found} {said}")
    other = folder / "other"
    other.mkdir()
    shutil.copy(library, other)
    report = tombstone(addresses[:3], "00" * 20)
    done = subprocess.run([uprobectl, "symbolize", "--symbols", other, "-"], input=report, capture_output=True, text=True)
    expect(tap, "frames of another build stay as they are, with a counted warning",
              done.stdout == report and done.returncode == 0
              and f"its build id is {build_id}, that of the report is {'00' * 20}" in done.stderr
              and "and 2 more like it" in done.stderr, done.stdout + done.stderr)


def check_callers(tap, uprobectl, folder):
    """The address after each call, as perf prints it after the kernel's walk (as it is) and after its
    own (less 1), and as Android prints it (less 1 on x86-64, less 4 on arm64)."""
    machines = {"x86-64": (["g++"], "call", 1),
                "arm64": (["clang++-19", "--target=aarch64-linux-gnu", "-fuse-ld=lld"], "bl", 4)}
    for machine, (compiler, call, back) in machines.items():
        library = folder / machine / "libshop.so"
        if not library.exists():
            library = build_library(folder / machine, *compiler)
        build_id = build_id_of(library)
        code = instructions_of(library)
        returns = [after for (_, name), (after, _) in zip(code, code[1:]) if name.startswith(call)]
        theirs = expected_frames(library, [address - back for address in returns])
        unmoved = expected_frames(library, returns)
        assert len(returns) > 4 and theirs != unmoved
        ours, said = our_frames(uprobectl, tombstone([address - back for address in returns], build_id), "--symbols",
                                library.parent)
        expect(tap, f"{machine}: callers of Android are not moved", not (found := differences(ours, theirs, returns)),
                  f"{found} {said}")
        segment = re.search(r"LOAD\s+0x([0-9a-f]+) 0x([0-9a-f]+) .* R E",
                            subprocess.run(["readelf", "-lW", library], capture_output=True, text=True).stdout)
        bias = int(segment[2], 16) - int(segment[1], 16)
        for name, moved in {"as the kernel walks": 0, "as perf unwinds": 1}.items():
            # A stack of one caller each: the first frame is innermost.
            report = "".join(f"p 1 1.0: 1 cycles:\n\t{0x40:16x} [unknown] (/nowhere/main)\n"
                             f"\t{address - moved - bias:16x} [unknown] ({library})\n\n" for address in returns)
            ours, said = our_frames(uprobectl, report)
            found = differences(ours[2::4], theirs, returns)
            expect(tap, f"{machine}: callers of perf script are moved into the call, {name}", not found, f"{found} {said}")
        report = "".join(f"p 1 1.0: 1 cycles:\n\t{address - bias:16x} [unknown] ({library})\n\n" for address in returns)
        ours, said = our_frames(uprobectl, report)
        expect(tap, f"{machine}: the innermost frame of perf script is not moved",
                  not (found := differences(ours[1::3], unmoved, returns)), f"{found} {said}")
        functions = [line.split() for line in subprocess.run(["nm", library], capture_output=True, text=True,
                                                             check=True).stdout.splitlines()]
        starts = {line[2]: int(line[0], 16) for line in functions if line[1] in "tTW"}
        # perf prints names without parameters and results, as c++filt does with -p.
        for title, function in {"": "outer", ", in C++, one of two functions": "_ZN4shop6middleERNS_4ItemEi",
                                ", of a template": "_ZN4shop6thriceIiEET_S1_"}.items():
            start = starts[function]
            printed = run("c++filt", "-p", function, text=True).stdout.strip()
            inside = [address for address in returns if start < address < start + 0x60][:2]
            report = "".join(f"p 1 1.0: 1 cycles:\n\t{0xffffffff81000000:16x} do_syscall_64+0x1 ([kernel.kallsyms])\n"
                             f"\t{0x7f1234560000 + address:16x} {printed}+{address - start:#x} ({library})\n\n"
                             for address in inside)
            ours, said = our_frames(uprobectl, report)
            found = differences(ours[2::4], expected_frames(library, inside), inside) if inside else ["no calls in it"]
            expect(tap, f"{machine}: a run-time address is understood by symbol and offset, below the kernel's frames{title}",
                      not found, f"{printed}: {found} {said}")


ASAN_SOURCE = """
#include <cstdlib>
volatile int sink;
__attribute__((noinline)) void hit(volatile int* p) { *p = 1; sink++; }
static inline void mid(volatile int* p) { hit(p); sink++; }
__attribute__((noinline)) void work(volatile int* p) { mid(p); sink++; }
int main() {
  volatile int* p = static_cast<volatile int*>(malloc(4));
  free(const_cast<int*>(p));
  work(p);
}
"""


def check_sanitizer(tap, uprobectl, folder):
    folder.mkdir()
    (folder / "use.cpp").write_text(ASAN_SOURCE)
    run("clang++-19", "-O1", "-g", "-fsanitize=address", "-Wl,--build-id", "use.cpp", "-o", "use", cwd=folder)
    plain = subprocess.run([folder / "use"], capture_output=True, text=True,
                           env={**os.environ, "ASAN_OPTIONS": "symbolize=0:detect_leaks=0"}).stderr
    symbolizer = shutil.which(SYMBOLIZER)
    (folder / "llvm-symbolizer").symlink_to(symbolizer)  # the name that the runtime asks for
    named = subprocess.run([folder / "use"], capture_output=True, text=True,
                           env={**os.environ, "ASAN_SYMBOLIZER_PATH": str(folder / "llvm-symbolizer"),
                                "ASAN_OPTIONS": "detect_leaks=0"}).stderr
    expected = re.findall(r"#\d+ 0x[0-9a-f]+ in (.+?) (\S+use\.cpp:\d+:\d+)", named)
    ours = subprocess.run([uprobectl, "symbolize", "-"], input=plain, capture_output=True, text=True).stdout
    found = re.findall(r"^\s+(\S.*?)(?:\+0x[0-9a-f]+)?(?: \[inlined\])? at (\S+use\.cpp:\d+:\d+)$", ours, re.M)
    expect(tap, "a crash under ASan has the names that ASan prints itself", len(expected) >= 4 and found == expected,
              f"{found}, not {expected}")


def check_streams(tap, uprobectl, folder):
    library = folder / "x86-64" / "libshop.so"
    line = tombstone([instructions_of(library)[0][0]], build_id_of(library))
    process = subprocess.Popen([uprobectl, "symbolize", "--symbols", library, "-"], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE)
    process.stdin.write(line.encode())
    process.stdin.flush()
    seen = b""
    while seen.count(b"\n") < 2 and select.select([process.stdout], [], [], 10)[0]:
        seen += os.read(process.stdout.fileno(), 4096)
    expect(tap, "names are written while the input is open", seen.startswith(line.encode()) and seen.count(b"\n") >= 2,
              seen)
    process.stdin.close()
    process.wait()
    junk = bytes(range(256)) * 500 + b"\n#\n#0\n#00 pc\n#00 pc \n#00 pc 12\n#1 0x (+0x)\n\t               1  (/x)\n" + os.urandom(70000)
    done = subprocess.run([uprobectl, "symbolize", "-"], input=junk, capture_output=True)
    expect(tap, "junk is copied byte by byte", done.stdout == junk and done.returncode == 0, done.stderr[-300:])
    cut = line[:40]
    done = subprocess.run([uprobectl, "symbolize", "--symbols", library, "-"], input=cut, capture_output=True, text=True)
    expect(tap, "a truncated line is copied", done.stdout == cut and done.returncode == 0, done.stdout)
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (256 << 20, 256 << 20))
    process = subprocess.Popen([uprobectl, "symbolize", "-"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, preexec_fn=limit)
    for _ in range(300):
        process.stdin.write(b"x" * (1 << 20))
    process.stdin.close()
    expect(tap, "a line of 300 MiB needs less memory than its size", process.wait() == 0)
    done = subprocess.run([uprobectl, "symbolize", "--symbols", library, "-"], capture_output=True, text=True,
                          input="y" * 70000 + "\n" + line)
    expect(tap, "the line after a long one is read", done.stdout.count(" at ") >= 1)


def main():
    uprobectl = Path(sys.argv[1]).resolve()
    tap = Tap()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        check_reports(tap, uprobectl, folder)
        check_callers(tap, uprobectl, folder)
        check_sanitizer(tap, uprobectl, folder / "asan")
        check_streams(tap, uprobectl, folder)
    tap.done()


if __name__ == "__main__":
    main()
