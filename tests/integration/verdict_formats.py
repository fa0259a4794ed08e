#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What resolve --verify and diff say of two builds of a library, against nm and c++filt; their reports as
JUnit (an XML schema), Markdown (python3-markdown) and annotations of GitHub; app bundles against APKs; and how
long 10,000 points in 1,000 libraries take. Prints TAP.

    verdict_formats.py UPROBECTL
"""

import html.parser
import json
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
import zipfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap

PROGRAM = sys.argv[1]
SCHEMA = Path(__file__).resolve().parent / "junit.xsd"
PATIENCE = float(os.environ.get("UPROBECTL_PATIENCE", "1"))

# Names with what the formats must escape: < > & | , : and *.
SOURCE = """
namespace shop {
struct Item { int size; };
template <typename T> struct Box { T value; };
__attribute__((visibility("default"), noinline)) int stays(int a) { return a + 1; }
#if BUILD == 1
__attribute__((visibility("default"), noinline)) int only_old(Box<Box<int>> b) { return b.value.value; }
#endif
#if BUILD == 2
__attribute__((visibility("default"), noinline)) int only_new(int *a) { return *a; }
#endif
#if BUILD == 2
__attribute__((visibility("default"), noinline)) int padding(int a) {
  int sum = 0;
  for (int i = 0; i < a; ++i) sum += i * a;
  return sum * 3;
}
#endif
__attribute__((visibility("default"), noinline)) int operator|(Item a, Item *b) { return a.size | b->size; }
__attribute__((visibility("default"), noinline)) bool operator<<(Item &a, Box<int> b) { return a.size < b.value; }
__attribute__((visibility("default"), noinline)) bool operator*(Item a, Item b) { return a.size == b.size; }
}
"""


def run(*words, expected=(0, 1), stdin=""):
    done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, input=stdin, timeout=120)
    if done.returncode not in expected:
        raise RuntimeError(f"{words}: exit status {done.returncode}: {done.stderr}")
    return done


def records(text, kind):
    return [record for record in map(json.loads, text.splitlines()) if record["type"] == kind]


def build(folder, number):
    source, library = folder / "shop.cpp", folder / f"libshop-{number}.so"
    source.write_text(SOURCE)
    subprocess.run(["g++", "-shared", "-fPIC", "-O1", "-fvisibility=hidden", f"-DBUILD={number}", "-Wl,--build-id",
                    "-Wl,-z,max-page-size=16384", "-o", library, source], check=True, timeout=60)
    return library


def functions(library):
    """{raw name: address} of the functions that the library exports"""
    text = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in text.splitlines()]
    return {row[2]: int(row[0], 16) for row in rows if row[1] in "TW" and "shop" in row[2]}


def demangled(names):
    text = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    return dict(zip(names, text.replace("> >", ">>").splitlines()))  # LLVM writes no blank there


def expected_changes(old, new):
    """{raw name: change}. The text segment of a small library is mapped at its offset."""
    changes = {name: "gone" for name in old if name not in new}
    changes |= {name: "new" for name in new if name not in old}
    return changes | {name: "function_moved" for name in old if name in new and old[name] != new[name]}


def pack(path, entries, compressed=()):
    """Libraries as an APK has them: stored, their data at a multiple of 16 KiB."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in entries:
            info = zipfile.ZipInfo(name)
            if name in compressed:
                info.compress_type = zipfile.ZIP_DEFLATED
            else:
                begin = archive.fp.tell() + 30 + len(name.encode()) + 4
                size = -begin % 16384
                info.extra = b"\x35\xd9" + size.to_bytes(2, "little") + bytes(size)
            archive.writestr(info, data)


class Tables(html.parser.HTMLParser):
    """The text of the cells of rendered tables."""

    def __init__(self, text):
        super().__init__()
        self.rows, self.cell, self.tags = [], None, Counter()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags[tag] += 1
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.cell = ""

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.rows[-1].append(self.cell)
            self.cell = None

    def handle_data(self, data):
        if self.cell is not None:
            self.cell += data


def junit_problems(text, folder):
    path = folder / "report.xml"
    path.write_text(text)
    done = subprocess.run(["xmllint", "--noout", "--schema", SCHEMA, path], capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        yield done.stderr
    root = ElementTree.fromstring(text)
    for suite in root:
        found = [len(suite.findall("testcase"))] + [len(suite.findall(f"testcase/{kind}"))
                                                    for kind in ("failure", "error", "skipped")]
        said = [int(suite.get(kind)) for kind in ("tests", "failures", "errors", "skipped")]
        if found != said:
            yield f"{suite.get('name')}: it says {said}, and has {found}"


def annotations(text):
    """[(level, properties, message)] as GitHub's runner reads them"""
    def unescape(value, property_too):
        for code, character in (("%3A", ":"), ("%2C", ",")) if property_too else ():
            value = value.replace(code, character)
        return value.replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%")

    found = []
    for line in text.splitlines():
        _, command, message = line.split("::", 2)
        level, _, words = command.partition(" ")
        properties = dict(word.split("=", 1) for word in words.split(","))
        found.append((level, {name: unescape(value, True) for name, value in properties.items()},
                      unescape(message, False)))
    return found


def test_two_builds(tap, folder, old, new):
    before, after = functions(old), functions(new)
    wanted = expected_changes(before, after)
    names = demangled(sorted(before | after))
    done = run("diff", "--json", "-q", old, new, "*shop*")
    drifts = records(done.stdout, "drift")
    found = {record["symbol"]: record["change"] for record in drifts if record["symbol"]}
    tap.check("diff finds the functions that nm says moved, are gone or are new",
              [] if found == wanted and len(set(wanted.values())) == 3 else [found, wanted])
    offsets_found = {record["symbol"]: (record["recorded"], record["found"]) for record in drifts if record["symbol"]}
    offsets = {name: tuple(hex(table[name]) if name in table else None for table in (before, after)) for name in wanted}
    tap.check("their offsets are those of nm", [] if offsets_found == offsets else [offsets_found, offsets])
    summary = records(done.stdout, "verify_summary")[0]
    counts = Counter(wanted.values())
    expected = {"checked": len(before), "unchanged": len(before) - counts["gone"] - counts["function_moved"],
            "moved": counts["function_moved"], "gone": counts["gone"], "new": counts["new"], "not_checked": 0}
    tap.check("the summary counts them", [f"{key}: {summary[key]}, not {value}" for key, value in expected.items()
                                          if summary[key] != value])
    report = run("diff", "-q", "--format", "junit", old, new, "*shop*").stdout
    tap.check("the JUnit report is valid and counts its cases", list(junit_problems(report, folder)))
    failed = {case.get("name") for case in ElementTree.fromstring(report).iter("testcase") if case.find("failure") is not None}
    tap.check("its failures are the functions that changed",
              [] if failed == {names[name] for name in wanted} else [failed, names])
    comment = run("diff", "-q", "--format", "markdown", old, new, "*shop*").stdout
    rendered = subprocess.run(["markdown_py", "-x", "tables"], input=comment, capture_output=True, text=True,
                              check=True, timeout=60).stdout
    tables = Tables(rendered)
    rows = {(row[0], row[1]) for row in tables.rows if len(row) == 4} - {("change", "function"), ("build_id", "")}
    tap.check("the rendered Markdown has a row for each of them, with its whole name",
              [] if rows == {(change, names[name]) for name, change in wanted.items()} else [comment, rows])
    tap.check("names are not markup there", [] if not {"em", "strong", "a"} & set(tables.tags) else [tables.tags])


def test_annotations(tap, folder, old, new):
    record = folder / "re%c,or:d.jsonl"
    record.write_text(run("resolve", "--json", old, "shop::stays", "shop::only_old").stdout)
    line = json.loads(record.read_text().splitlines()[1])
    line |= {"request": "lo%st,\r\nx:y", "symbol": "lo%st,\r\nx:y"}
    with record.open("a") as file:
        file.write(json.dumps(line) + "\n")
    found = annotations(run("resolve", "-q", "--format", "github", "--verify", record, new).stdout)
    errors = [(properties["line"], message) for level, properties, message in found if level == "error"
              and "only_old" in message]
    tap.check("an annotation is at the line of the record that has the point",
              [] if [number for number, _ in errors] == ["2"] else [found])
    tap.check("its properties and its message are escaped as GitHub unescapes them",
              [] if all(properties["file"] == str(record) for _, properties, _ in found)
              and any("'lo%st,\r\nx:y'" in message for _, _, message in found) else [found])
    tap.check("another build is a notice, the last line the summary",
              [] if [level for level, properties, _ in found if properties["title"] == "build_id"] == ["notice"]
              and "are unchanged" in found[-1][2] else [found])


def test_archives(tap, folder, old, new):
    apk, bundle = folder / "app.apk", folder / "app.aab"
    one, two = old.read_bytes(), new.read_bytes()
    pack(apk, [("lib/x86_64/libshop.so", one), ("lib/x86_64/libgone.so", one), ("lib/x86_64/libz.so", one)])
    pack(bundle, [("base/lib/x86_64/libshop.so", two), ("base/lib/x86_64/libz.so", one), ("base/lib/x86_64/libnew.so", two)],
         ["base/lib/x86_64/libz.so"])
    done = run("diff", "--json", "-q", apk, bundle, "shop::stays")
    found = {(record["entry"], record["change"]) for record in records(done.stdout, "drift")}
    wanted = {("lib/x86_64/libgone.so", "library_gone"), ("base/lib/x86_64/libnew.so", "library_new"),
              ("base/lib/x86_64/libshop.so", "build_id"), ("base/lib/x86_64/libz.so", "not_probeable"),
              ("base/lib/x86_64/libz.so", "archive_moved")}
    tap.check("libraries of an APK and of a bundle are compared by ABI and name",
              [] if wanted <= found else [f"found {found}", f"expected {wanted}"])
    tap.check("a report about several libraries is valid JUnit",
              list(junit_problems(run("diff", "-q", "--format", "junit", apk, bundle, "shop::stays").stdout, folder)))
    record = folder / "missing.jsonl"
    record.write_text(run("resolve", "--json", old, "shop::stays").stdout.replace("libshop-1.so", "nowhere.so"))
    report = run("resolve", "-q", "--format", "junit", "--verify", record).stdout
    root = ElementTree.fromstring(report)
    tap.check("what cannot be checked is an error of JUnit", list(junit_problems(report, folder)) +
              ([] if root.find("testsuite/testcase/error") is not None else [report]))


def test_many(tap, folder):
    source, library = folder / "many.c", folder / "many.so"
    source.write_text("".join(f"int work_{i}(int a) {{ return a * {i + 3}; }}\n" for i in range(10)))
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", library, source], check=True, timeout=60)
    data = library.read_bytes()
    apk = folder / "many.apk"
    pack(apk, [(f"lib/x86_64/lib{i:04}.so", data) for i in range(1000)])
    patterns, single = folder / "patterns.jsonl", folder / "single.jsonl"
    patterns.write_text(run("resolve", "--json", f"{apk}!/lib/*/*.so", "work_*", expected=(0,)).stdout)
    requests = "".join(f"{apk}!/lib/x86_64/lib{i:04}.so work_{j}\n" for i in range(1000) for j in range(10))
    single.write_text(run("resolve", "--json", "-f", "-", stdin=requests, expected=(0,)).stdout)
    for what, record in (("a pattern", patterns), ("single requests", single)):
        begin = time.monotonic()
        done = run("resolve", "--json", "--verify", record, expected=(0,))
        seconds = time.monotonic() - begin
        summary = records(done.stdout, "verify_summary")[0]
        tap.check(f"10,000 points in 1,000 libraries, of {what}, are verified within 5 s",
                  [] if seconds < 5 * PATIENCE and summary["unchanged"] == 10000 and len(summary["libraries"]) == 1000
                  else [f"{seconds:.1f} s: {str(summary)[:300]}"])
        print(f"# {what}: {seconds:.2f} s")


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        old, new = build(folder, 1), build(folder, 2)
        test_two_builds(tap, folder, old, new)
        test_annotations(tap, folder, old, new)
        test_archives(tap, folder, old, new)
        test_many(tap, folder)
    tap.done()


if __name__ == "__main__":
    main()
