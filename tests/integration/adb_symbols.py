# SPDX-License-Identifier: Apache-2.0
"""--symbols with --adb: the unstripped files are on this machine, the stripped ones on the device."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from adb_device_world import difference, records_of

# A client that counts what the device gets.
GIVING_CLIENT = """#!{python}
import os, subprocess, sys
words = ["adb", *sys.argv[1:]]
if "--agent" not in words[-1]:
    os.execvp("adb", words)
size = 0
with subprocess.Popen(words, stdin=subprocess.PIPE) as client:
    try:
        while data := os.read(0, 1 << 16):
            size += len(data)
            client.stdin.write(data)
            client.stdin.flush()
        client.stdin.close()
    except BrokenPipeError:
        pass
with open("{counts}", "a") as counts:
    counts.write(f"{{size}}\\n")
sys.exit(client.returncode)
"""

ORDERS = """
#include <string.h>
struct order { long number; unsigned pieces, cents; char cake[24]; };
static inline __attribute__((always_inline)) unsigned price(unsigned pieces, unsigned cents) {
  unsigned sum = 0;
  for (unsigned i = 0; i < pieces; ++i) { __asm__ volatile("" : "+r"(sum)); sum += cents; }
  return sum;
}
__attribute__((noinline)) int take(const struct order* order) {
  return (int)price(order->pieces, order->cents) + (int)strlen(order->cake) * 0;
}
int main(void) {
  static const struct order orders[] = {
      {701, 2, 320, "Zwetschgenkuchen"}, {702, 12, 90, "Berliner"}, {703, 500, 90, "Berliner"}};
  int sum = 0;
  for (int i = 0; i < 3; ++i) sum += take(&orders[i]);
  return sum == 0;
}
"""

# The calls with 7 are those of a clone.
BODIES = """
static __attribute__((noinline)) int scale(int n, int by) { __asm__ volatile(""); return n * by; }
__attribute__((noinline)) int (*find(void))(int, int) { return scale; }
int main(int argc, char** argv) {
  (void)argv;
  int sum = 0;
  for (int i = 0; i < 3; ++i) sum += scale(i, 7) + find()(i, argc);
  return sum == 0;
}
"""


class SymbolTests:
    def __init__(self, world, fixtures):
        self.world, self.shop = world, fixtures / "shop"

    def symbols_are_here(self, device):
        """Names of a stripped program are those of the file with its build id on the workstation."""
        run, shop, stripped = self.world.run, self.shop, self.shop.parent / "shop-stripped"
        question = ["attach", "--json", "-d", "20s", "--args", "ms:u32", "--latency"]
        far = run(device, *question, "--symbols", shop, stripped, "shop_bake", "--", stripped)
        here = run(None, *question, shop, "shop_bake", "--", shop)

        def calls(done):
            return [(record["symbol"], record["image_offset"], record["left_by"], record["arguments"])
                    for record in records_of(done.stdout) if record["type"] == "event"]
        problems = difference(f"calls ({far.stderr})", calls(far), calls(here))
        problems += difference("number of calls", len(calls(here)), 6)
        problems += self.symbols_are_in_archives(device, shop, stripped, lambda done: calls(done) == calls(here))
        for symbols, extra, function, expected in [
                (shop, [], "shop_baked",
                 "no function 'shop_baked'\n  hint: did you mean 'shop_bake', 'shop_take' or 'shop_boxes'?"),
                (shop.parent / "libgreet.so", [], "shop_bake", "no file with build id"),
                (shop, ["--args", "order->pieces"], "shop_order", "no debug information")]:
            done = run(device, "attach", "-d", "20s", "--symbols", symbols, *extra, stripped, function, "--", stripped)
            if done.returncode != 1 or expected not in done.stderr:
                problems.append(f"{symbols} {function}: {done.returncode} {done.stderr}")
        return problems

    def counting_client(self, folder):
        """The file with the numbers of bytes that devices got, and the environment for runs with this client."""
        client, counts = folder / "adb", folder / "bytes"
        client.write_text(GIVING_CLIENT.format(python=sys.executable, counts=counts))
        client.chmod(0o755)
        return counts, {**self.world.environment, "ADB": str(client)}

    def types_are_here(self, device):
        """Values, conditions and lines of a stripped program are those of the file on this machine, which is read in ranges."""
        folder = self.world.path / "types"
        folder.mkdir()
        (folder / "orders.c").write_text(ORDERS)
        subprocess.run(["gcc", "-g", "-O2", "-no-pie", "-Wl,--build-id", "orders.c", "-o", "orders"], cwd=folder, check=True)
        subprocess.run(["strip", "orders", "-o", "stripped"], cwd=folder, check=True)
        shutil.copy(folder / "orders", folder / "large")
        with open(folder / "large", "ab") as file:
            file.truncate((folder / "orders").stat().st_size + (1 << 30))  # what is not read is not transferred
        counts, environment = self.counting_client(folder)

        def run(on, options, symbols, program, function):
            return self.world.run(on, "attach", "--json", "-d", "20s", *options, *symbols, folder / program, function, "--", folder / program,
                                  env=environment)

        def records(done):
            kept = ("symbol", "arguments", "return_value", "count", "by", "image_offset", "inlined")
            return [[record.get(key) for key in kept] +
                    [[(frame["symbol"], frame.get("source")) for frame in record.get("stack") or [] if str(folder) in str(frame["file"])]]
                    for record in records_of(done.stdout) if record["type"] in ("event", "count")]
        problems = []
        for options, function, number, text in [
                ([], "take", 3, "const order*"),
                (["--args", "order->pieces,order->cake"], "take", 3, "Zwetschgenkuchen"),
                (["--args", "order", "--if", "order->pieces > 100"], "take", 1, "const order*"),
                (["--if", "order->cake == 'Berliner'", "--latency"], "take", 2, "1080"),
                (["--stack", "--lines"], "take", 3, "orders.c"),
                (["--inlined", "--args", "pieces"], "price", 3, "500"),
                (["--count", "--by", "order->cake"], "take", 2, "Berliner")]:
            counts.write_text("")
            far, here = run(device, options, ["--symbols", folder / "large"], "stripped", function), run(None, options, [], "orders", function)
            problems += difference(f"{options} ({far.stderr})", records(far), records(here))
            problems += difference(f"{options}: records ({here.stderr})", len(records(here)), number)
            if text not in str(records(here)):
                problems.append(f"{options}: {records(here)}")
            given = sum(map(int, counts.read_text().split()))
            print(f"# {options}: {given} bytes", flush=True)
            if given > 4 << 20:
                problems.append(f"{options}: {given} bytes transferred")
        wrong = [run(device, ["--args", "order->piece"], ["--symbols", folder / "orders"], "stripped", "take"),
                 run(None, ["--args", "order->piece"], [], "orders", "take")]
        problems += difference("a member that does not exist", *[(done.returncode, done.stderr) for done in wrong])
        return problems

    def plans_have_types(self, device):
        """A plan of this machine has the types of the stripped program on the device: values are those of a local run."""
        folder = self.world.path / "planned"
        folder.mkdir()
        (folder / "orders.c").write_text(ORDERS)
        subprocess.run(["gcc", "-g", "-O2", "-no-pie", "-Wl,--build-id", "orders.c", "-o", "orders"], cwd=folder, check=True)
        subprocess.run(["strip", "orders", "-o", "stripped"], cwd=folder, check=True)
        counts, environment = self.counting_client(folder)

        def records(done):
            kept = ("symbol", "arguments", "return_value", "count", "by", "source", "line")
            return [[record.get(key) for key in kept] for record in records_of(done.stdout) if record["type"] in ("event", "count")]
        problems = []
        line = next(number for number, text in enumerate(ORDERS.splitlines(), 1) if "return (int)price" in text)
        for options, function, number, text in [
                (["--args", "order->pieces,order->cake"], "take", 3, "Zwetschgenkuchen"),
                (["--args", "order", "--if", "order->pieces > 100"], "take", 1, "const order*"),
                (["--if", "order->cake == 'Berliner'", "--latency"], "take", 2, "1080"),
                (["--args", "order->number"], f"orders.c:{line}", 3, "703"),
                (["--inlined", "--args", "pieces"], "price", 3, "500"),
                (["--count", "--by", "order->cake"], "take", 2, "Berliner")]:
            counts.write_text("")
            plan = folder / "orders.plan"
            made = self.world.run(None, "attach", "-q", "--write-plan", plan, *options, folder / "orders", function)
            problems += difference(f"{options}: --write-plan ({made.stderr})", made.returncode, 0)
            far = self.world.run(device, "attach", "--json", "-d", "20s", "--plan", plan, folder / "stripped", "--", folder / "stripped",
                                 env=environment)
            here = self.world.run(None, "attach", "--json", "-d", "20s", *options, folder / "orders", function, "--", folder / "orders")
            problems += difference(f"{options} ({far.stderr})", records(far), records(here))
            problems += difference(f"{options}: records ({here.stderr})", len(records(here)), number)
            if text not in str(records(here)):
                problems.append(f"{options}: {records(here)}")
            given = sum(map(int, counts.read_text().split()))
            print(f"# {options}: {given} bytes", flush=True)
        return problems

    def options_choose_bodies(self, device):
        """Which bodies of a function are probed follows from the options, also if a file of this machine has their names."""
        folder = self.world.path / "bodies"
        folder.mkdir()
        (folder / "bodies.c").write_text(BODIES)
        subprocess.run(["gcc", "-O2", "-fipa-cp-clone", "-no-pie", "-Wl,--build-id", "bodies.c", "-o", "bodies"], cwd=folder, check=True)
        subprocess.run(["strip", "bodies", "-o", "stripped"], cwd=folder, check=True)
        problems = []
        for options, expected in [(["--count"], {"scale", "scale.constprop.0"}), (["--count", "--no-clones"], {"scale"}),
                                  (["--live"], {"scale", "scale.constprop.0"}), (["--live", "--no-clones"], {"scale"})]:
            done = self.world.run(device, "attach", "-d", "20s", *options, "--symbols", folder / "bodies", folder / "stripped", "scale",
                                  "--", folder / "stripped")
            problems += difference(f"{options} ({done.stderr})", {row.split("\t")[-1] for row in done.stdout.splitlines()}, expected)
        return problems

    def names_are_here(self, device):
        """What needs no root also reads the file with the build id on this machine: names, types, lines."""
        folder = self.world.path / "names"
        folder.mkdir()
        (folder / "orders.c").write_text(ORDERS)
        subprocess.run(["gcc", "-g", "-O2", "-no-pie", "-Wl,--build-id", "orders.c", "-o", "orders"], cwd=folder, check=True)
        subprocess.run(["strip", "orders", "-o", "stripped"], cwd=folder, check=True)
        (folder / "here").mkdir()
        shutil.move(folder / "orders", folder / "here/stripped")
        symbols, stripped = ["--symbols", folder / "here"], folder / "stripped"
        counts, environment = self.counting_client(folder)

        def records(done):
            left_out = ("file", "target", "device")
            return [{key: value for key, value in record.items() if key not in left_out} for record in records_of(done.stdout)]
        problems = []
        for command, words, text in [("resolve", ["take"], '"symbol": "take"'), ("resolve", ["orders.c:10", "take+0"], "orders.c"),
                                     ("resolve", ["--inlined", "price"], "price"), ("list-args", ["take"], "const order*"),
                                     ("list-symbols", ["ta*"], '"symbol": "take"'), ("list-lines", ["take"], "probeable")]:
            counts.write_text("")
            far = self.world.run(device, command, "--json", *symbols, stripped, *words, env=environment)
            if sum(map(int, counts.read_text().split())) < (folder / "here/stripped").stat().st_size:  # one range has all of it
                problems.append(f"{command} {words}: the device got {counts.read_text().split()} bytes")
            here = self.world.run(None, command, "--json", *symbols, stripped, *words)
            problems += difference(f"{command} {words} ({far.stderr}{here.stderr})", records(far), records(here))
            if text not in str(records(here)).replace("'", '"'):
                problems.append(f"{command} {words}: {here.stdout}")
            without = self.world.run(device, command, "--json", stripped, *words)
            if records(without) == records(here):
                problems.append(f"{command} {words}: needs no symbols")
        offset = records(self.world.run(None, "resolve", "--json", folder / "here/stripped", "take"))[0]["offset"]
        on_device = self.world.run(device, "resolve", "--offset-only", "--symbols", f"device:{folder}/here", stripped, "take")
        problems += difference(f"symbols on the device ({on_device.stderr})", on_device.stdout.split(), [offset])
        other = self.world.run(device, "resolve", "--symbols", self.shop, stripped, "take")
        if other.returncode != 1 or "no file with build id" not in other.stderr:
            problems.append(f"another build: {other.returncode} {other.stderr}")
        return problems

    def symbols_are_in_archives(self, device, shop, stripped, has_calls):
        """How an archive stores the symbols does not matter, nor does the same library for another ABI beside it."""
        folder = self.world.path / "symbol-paths"
        for abi in ("arm64-v8a", "x86_64"):
            (folder / "all" / abi).mkdir(parents=True)
        mine, other = (folder / "all" / abi / stripped.name for abi in ("x86_64", "arm64-v8a"))
        shutil.copy(shop, mine)
        content = bytearray(shop.read_bytes())
        content[18:20] = (183).to_bytes(2, "little")  # e_machine: EM_AARCH64
        other.write_bytes(content)
        for name, how in {"deflated.zip": zipfile.ZIP_DEFLATED, "stored.zip": zipfile.ZIP_STORED}.items():
            with zipfile.ZipFile(folder / name, "w", how) as archive:
                archive.write(other, f"arm64-v8a/{stripped.name}.sym")
                archive.write(mine, f"x86_64/{stripped.name}.sym")
        problems = []
        for path in ("deflated.zip", "stored.zip", "all"):
            done = self.world.run(device, "attach", "--json", "-d", "20s", "--args", "ms:u32", "--latency", "--symbols", folder / path,
                                  stripped, "shop_bake", "--", stripped)
            if not has_calls(done) or "warning" in done.stderr:
                problems.append(f"{path}: {done.stdout} {done.stderr}")
        done = self.world.run(device, "attach", "-q", "-d", "20s", "--stack", "--unwind-on", "host", "--symbols", folder / "deflated.zip",
                              "--flamegraph", folder / "far.svg", stripped, "shop_bake", "--", stripped)
        problems += difference(f"a flame graph ({done.stderr})", done.returncode, 0)
        if not done.returncode and "shop_bake" not in (folder / "far.svg").read_text():
            problems.append("the flame graph does not have the function")
        return problems
