#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""run_page.py EXPORT_MAKER
Opens pages of made runs (export_maker.cpp) in headless Chromium and uses them as a person would. The expected
numbers are those of the made calls. Prints TAP."""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import chromium
from tap import Tap

TABLE = """Array.from(document.querySelectorAll('#functions-table tbody tr'),
  row => Array.from(row.children, cell => cell.textContent))"""
EVENTS = """Array.from(document.querySelectorAll('#events-rows .event'),
  row => Array.from(row.children, cell => cell.textContent).slice(1))"""
# Calls of export_maker's thread 11: main 1000 to 2000, parse in it 300, read in parse 100, read 100 and 100, and
# `next` on a stack of its own 250. One ended with the run, one without a return.
CALLS = [["main", "libmade.so", "1", "1 µs", "500 ns", "1 µs", "1 µs", "1 µs", "1 µs", "1"],
         ["parse(char const*)", "libmade.so", "1", "300 ns", "200 ns", "300 ns", "300 ns", "300 ns", "300 ns", ""],
         ["read", "libc.so.6", "3", "300 ns", "300 ns", "100 ns", "100 ns", "100 ns", "100 ns", "1"],
         ["next", "libmade.so", "1", "250 ns", "250 ns", "250 ns", "250 ns", "250 ns", "250 ns", ""]]


def make(maker, run, folder):
    path = folder / f"{run}.html"
    subprocess.run([maker, run, path], check=True)
    return path


def differences(found, expected):
    return [] if found == expected else [f"found    {found!r}", f"expected {expected!r}"]


def put(browser, element, text):
    """As typing does."""
    browser.value(f"(e => {{ e.value = {json.dumps(text)}; e.dispatchEvent(new Event('input')); }})(document.getElementById('{element}'))")


def tab(browser, name):
    browser.value(f"document.getElementById('tab-{name}').click()")


def check_functions(tap, browser, maker, folder):
    browser.open(make(maker, "calls", folder).as_uri())
    tap.check("the table has calls, times with and without the calls inside, and failures, the largest sum first",
              differences(browser.value(TABLE), CALLS))
    tap.check("the title is that of the run", differences(browser.value("document.title"), "made"))
    tap.check("lost records are a warning", [] if "3 records were lost (ring buffer full)" in browser.value(
        "document.getElementById('warning').textContent") else [browser.value("document.body.innerText")[:300]])
    browser.value("document.querySelectorAll('#functions-table th button')[2].click()")
    tap.check("a click on a heading sorts", differences([row[0] for row in browser.value(TABLE)][0], "read"))
    tap.check("what is sorted is said to others, too", differences(
        browser.value("document.querySelectorAll('#functions-table th')[2].getAttribute('aria-sort')"), "descending"))
    put(browser, "functions-filter", "LIBC")
    tap.check("the filter finds names and files", differences([row[0] for row in browser.value(TABLE)], ["read"]))
    browser.value("document.querySelector('#functions-table tbody button').click()")
    rows = browser.value("Array.from(document.querySelectorAll('#histogram tbody tr'), row => row.children[0].textContent + ' ' + row.children[2].textContent)")
    tap.check("a function has a histogram of its durations", differences(rows, ["64 ns 3"]))
    tap.check("and a map of when they were", differences(browser.value("document.getElementById('heat').width > 0"), True))


def check_flame(tap, browser, maker, folder):
    browser.open(make(maker, "calls", folder).as_uri() + "#view=flame")
    shapes = """uprobectlRun.flame.shapes.map(s => [s.node.name === 0xffffffff ? 'all' : uprobectlRun.run.names[s.node.name],
      s.level, Math.round(s.x / document.getElementById('flame-canvas').clientWidth * 1250),
      Math.round(s.width / document.getElementById('flame-canvas').clientWidth * 1250)])"""
    whole = [["all", 0, 0, 1250], ["main", 1, 0, 1000], ["next", 1, 1000, 250], ["parse(char const*)", 2, 0, 300],
             ["read", 2, 300, 200], ["read", 3, 0, 100]]
    tap.check("frames of the flame graph are as wide as their time", differences(sorted(browser.value(shapes), key=lambda s: (s[1], s[2])), whole))
    put(browser, "flame-search", "read")
    tap.check("a search says what part is found", differences(browser.value("document.getElementById('flame-found').textContent"), "2 frames, 24.00%"))
    put(browser, "flame-search", "")
    box = browser.value("(b => [b.left, b.top, b.width])(document.getElementById('flame-canvas').getBoundingClientRect())")
    browser.click(box[0] + 5, box[1] + 2.5 * 18)
    tap.check("a click shows a frame alone, below its callers", differences(
        sorted(browser.value(shapes), key=lambda s: (s[1], s[2])),
        [["all", 0, 0, 1250], ["main", 1, 0, 1250], ["parse(char const*)", 2, 0, 1250], ["read", 3, 0, 417]]))
    browser.value("document.getElementById('flame-canvas').focus()")
    browser.press("Escape", 27)
    tap.check("Esc shows all again", differences(sorted(browser.value(shapes), key=lambda s: (s[1], s[2])), whole))
    browser.value("(e => { e.value = 'callers'; e.dispatchEvent(new Event('change')); })(document.getElementById('flame-view'))")
    tap.check("the other direction begins with the functions that took the time", differences(
        sorted(shape[:1] + shape[3:] for shape in browser.value(shapes) if shape[1] == 1),
        [["main", 500], ["next", 250], ["parse(char const*)", 200], ["read", 300]]))


def rows_of(browser, table):
    return browser.value(f"Array.from(document.querySelectorAll('#{table} tbody tr'), row => Array.from(row.children, cell => cell.textContent))")


def check_tree(tap, browser, maker, folder):
    browser.open(make(maker, "calls", folder).as_uri() + "#view=tree")
    tap.check("the call tree begins with the outermost calls, the heaviest first", differences(
        rows_of(browser, "tree-table"), [["▸ main", "libmade.so", "1", "1 µs", "500 ns", "80.00%"],
                                         ["\u2003next", "libmade.so", "1", "250 ns", "250 ns", "20.00%"]]))
    browser.value("document.querySelector('#tree-table tbody button').focus()")
    for key in ("ArrowRight", "ArrowDown", "ArrowRight"):
        browser.press(key, {"ArrowRight": 39, "ArrowDown": 40}[key])
    tap.check("keys open a row and those below it", differences(
        [row[0].strip() + " " + row[2] + " " + row[3] for row in rows_of(browser, "tree-table")],
        ["▾ main 1 1 µs", "▾ parse(char const*) 1 300 ns", "read 1 100 ns", "read 2 200 ns", "next 1 250 ns"]))
    tap.check("rows tell others their level and whether they are open", differences(
        browser.value("Array.from(document.querySelectorAll('#tree-table tbody tr'), row => row.getAttribute('aria-level') + (row.getAttribute('aria-expanded') || ''))"),
        ["1true", "2true", "3", "2", "1"]))
    tap.check("the focus stays with the row", differences(browser.value("document.activeElement.textContent"), "▾ parse(char const*)"))
    browser.press("ArrowLeft", 37)
    tap.check("a key closes it", differences(len(rows_of(browser, "tree-table")), 4))
    put(browser, "tree-search", "READ")
    tap.check("a search shows what matches and what is above it", differences(
        ([row[0].strip() for row in rows_of(browser, "tree-table")], browser.value("document.getElementById('tree-count').textContent")),
        (["▾ main", "▾ parse(char const*)", "read", "read"], "4 rows, 24.00% of the whole")))
    put(browser, "tree-search", "")
    browser.value("(e => { e.value = 'callers'; e.dispatchEvent(new Event('change')); })(document.getElementById('tree-view'))")
    tap.check("the other direction begins with the functions that took the time", differences(
        [row[0].strip() + " " + row[2] + " " + row[3] for row in rows_of(browser, "tree-table")],
        ["main 1 500 ns", "▸ read 3 300 ns", "next 1 250 ns", "▸ parse(char const*) 1 200 ns"]))
    tap.check("the flame graph has the same direction", differences(browser.value("document.getElementById('flame-view').value"), "callers"))
    browser.value("(e => { e.value = 'callees'; e.dispatchEvent(new Event('change')); })(document.getElementById('flame-view'))")


def check_sums(tap, browser, maker, folder):
    browser.open(make(maker, "sums", folder).as_uri())
    tap.check("views that the run has nothing for are not there", differences(
        browser.value("Array.from(document.querySelectorAll('#tabs button'), tab => tab.textContent)"), ["Functions", "Spans", "Counts"]))
    tap.check("counts of several intervals are added up", differences([row[:3] for row in browser.value(TABLE)], [["counted", "libmade.so", "42"]]))
    tap.check("files have their build ids", differences(
        browser.value("document.getElementById('files-list').textContent"), "/opt/lib/libmade.so, build id 0a1b2c"))
    tab(browser, "counts")
    tap.check("counts by value have the value and its sum", differences(rows_of(browser, "counts-table"),
              [["counted", "path=/etc/<hosts>", "hits", "7", "2.5 µs"], ["request", "pid=10, comm=app", "open spans", "3", ""]]))
    tab(browser, "spans")
    tap.check("spans have their numbers", differences(rows_of(browser, "spans-table"), [["request", "1,200", "1,199", "1", "4"]]))
    tap.check("open spans have their key and their age", differences(
        [row[:3] + row[4:] for row in rows_of(browser, "open-table")], [["request", "77", "3.1 µs", "from=begins, tid=11"]]))


def check_waiting(tap, browser, head, folder):
    def values(**of):
        return json.dumps(of, separators=(",", ":"))
    lines = ['r\t"waits"\t1700000000123456789\t"Linux 6.18 x86_64"', 't\t0\t1\t9\t"a"', 'n\t0\t"outer"\t"m"', 'n\t1\t"inner"\t"m"', 'n\t2\t"slept"\t"m"', 'n\t3\t"blocked"\t"m"',
             "c\t0\t0\t0\t10000\t" + values(waiting_ns=9) + "\t" + values(on_cpu_ns=2500, waiting_ns=7500, preempted_ns=500, slept_ns=6000, blocked_ns=1000),
             "c\t0\t1\t1000\t6100\t\t" + values(on_cpu_ns=100, waiting_ns=6000, slept_ns=6000),
             "w\t0\t2\t1050\t6000\t\t" + values(waker_comm="kworker/\"1\""), "w\t0\t3\t8000\t1000", 'z\t"1s"\t20000']
    path = folder / "waiting.html"
    path.write_bytes(head + "\n".join(lines).encode())
    browser.open(path.as_uri() + "#view=waiting")
    tap.check("waiting time has its causes and its share", differences(rows_of(browser, "waiting-table"),
              [["outer", "m", "1", "10 µs", "2.5 µs", "7.5 µs", "6 µs", "1 µs", "500 ns", "75.0%"],
               ["inner", "m", "1", "6.1 µs", "100 ns", "6 µs", "6 µs", "", "", "98.4%"]]))
    tap.check("the longest waits have their call and who ended them", differences(
        [row[:5] for row in rows_of(browser, "longest-table")],
        [["inner", "a 9", "6 µs", "slept", 'kworker/"1"'], ["outer", "a 9", "1 µs", "blocked", ""]]))
    tab(browser, "tree")
    browser.value("(e => { e.value = 'waiting'; e.dispatchEvent(new Event('change')); })(document.getElementById('tree-weight'))")
    browser.value("document.getElementById('tree-hottest').click()")
    tap.check("the call tree has waiting time without that of the calls inside", differences(
        [row[0].strip() + " " + " ".join(row[2:]) for row in rows_of(browser, "tree-table")],
        ["▾ outer 1 7.5 µs 1.5 µs 100.00%", "inner 1 6 µs 6 µs 80.00%"]))
    path.write_bytes(head + "\n".join([*lines[:4], "c\t0\t0\t0\t10000\t" + values(waiting_ns=9)]).encode())
    browser.open("about:blank")
    browser.open(path.as_uri())
    tap.check("an argument of that name is none of its times", differences(browser.value("document.getElementById('tab-waiting')"), None))
    tap.check("the kernel is said", [] if "Linux 6.18 x86_64" in browser.value("document.getElementById('summary').textContent") else ["no"])


def check_timeline(tap, browser, maker, folder):
    browser.open(make(maker, "calls", folder).as_uri() + "#view=timeline")
    drawn = "uprobectlRun.timeline.shapes.map(s => uprobectlRun.run.names[uprobectlRun.run.name.data[s.i]]).sort()"
    names = ["main", "next", "parse(char const*)", "read", "read", "read"]
    tap.check("the timeline has all calls", differences(browser.value(drawn), names))
    tap.check("calls of another stack have a row of their own", differences(
        browser.value("uprobectlRun.timeline.rows.filter(r => r.level === 0).map(r => r.title)"), ["worker 11", "worker stack 2 11"]))
    canvas = "document.getElementById('timeline-canvas')"
    box = browser.value(f"(b => [b.left, b.top])({canvas}.getBoundingClientRect())")
    shape = browser.value("(s => [s.x, s.y, s.width])(uprobectlRun.timeline.shapes.find(s => uprobectlRun.run.names[uprobectlRun.run.name.data[s.i]] === 'main'))")
    browser.click(box[0] + shape[0] + shape[2] / 2, box[1] + shape[1] + 9)
    text = browser.value("document.getElementById('timeline-detail').textContent")
    tap.check("a click shows the values of a call", [] if "main" in text and "arg0=0x3e8" in text and "ended=the run ended" in text else [text])
    browser.value(f"{canvas}.focus()")
    for _ in range(3):
        browser.press("+", 187)
    tap.check("+ zooms", [] if browser.value("uprobectlRun.timeline.to - uprobectlRun.timeline.from") == 1100 / 8 else
              [browser.value("document.getElementById('timeline-range').textContent")])
    browser.press("Escape", 27)
    tap.check("Esc shows the whole run", differences(browser.value("uprobectlRun.timeline.to - uprobectlRun.timeline.from"), 1100))


def check_events(tap, browser, maker, folder):
    browser.open(make(maker, "events", folder).as_uri() + "#view=events")
    rows = browser.value(EVENTS)
    tap.check("the list has the events by time, with their values", differences(
        [row[:3] for row in rows][:3], [["main 11", "outer", "999 ns"], ["other 12", "outer", "901 ns"], ["main 11", "ns::inner(int)", "100 ns"]]))
    tap.check("values are shown", [] if 'size=-5' in rows[2][3] else rows[2:3])
    put(browser, "events-filter", "inner")
    tap.check("the filter finds names", differences(browser.value("document.getElementById('events-count').textContent"), "3 of 8 events"))
    put(browser, "events-filter", "size=-5")
    tap.check("and values", differences(browser.value("document.getElementById('events-count').textContent"), "1 of 8 events"))
    put(browser, "events-filter", "")
    put(browser, "events-least", "0.95")
    tap.check("a least duration leaves the others out", differences(browser.value("document.getElementById('events-count').textContent"), "3 of 8 events"))


def check_hostile(tap, browser, maker, folder):
    path = make(maker, "names", folder)
    browser.open(path.as_uri())
    tap.check("names of any bytes are shown as text", differences(browser.value("uprobectlRun.run.damaged"), 0))
    head = path.read_bytes().split(b'<script type="text/plain" id="run">\n')[0] + b'<script type="text/plain" id="run">\n'
    # The first six lines are whole.
    lines = ['r\t"\\u003c/script>\\u003cscript>document.title=1\\u003c/script>"\t0', 'n\t0\t"\\u003cimg src=x onerror=alert(1)>"\t"m"',
             "t\t0\t1\t1\t\"t\"", "c\t0\t0\t0\t5", "c\t0\tx\t0\t5", "e\t0\t5", "e\t7", "q", "n\t1\t\"cut",
             "n\t4000000000\t\"far\"\t\"\"", "n\t1\t7\t\"\"", 'r\t"x"\t1e300\t', "c\t0\t0\t0\t1e999", "l\t-1\t\"\"", "s\t1\t\t99999999999"]
    path = folder / "hostile.html"
    path.write_bytes(head + "\n".join(lines).encode())
    browser.open(path.as_uri())
    tap.check("markup in names is text", differences(
        (browser.value("document.title"), [row[0] for row in browser.value(TABLE)], browser.value("document.images.length")),
        ("</script><script>document.title=1</script>", ["<img src=x onerror=alert(1)>"], 0)))
    tap.check("damaged lines are counted, and a run without an end is said", differences(
        browser.value("document.getElementById('warning').textContent"),
        "the run had not ended when this page was written. 11 lines of the run cannot be read"))
    return head


def check_many(tap, browser, head, folder):
    path = folder / "many.html"
    names = ["n\t%d\t\"function %d\"\t\"lib%d.so\"" % (i, i, i % 7) for i in range(50)]
    lines = ["r\t\"many\"\t1700000000000000000", *("t\t%d\t1\t%d\t\"thread %d\"" % (i, i + 1, i) for i in range(8)), *names]
    for i in range(250_000):  # a call with three inside, on one of eight threads
        at = i * 5000
        track = i % 8
        lines += [f"c\t{track}\t{i % 49 + 1}\t{at + 100 + k * 1000}\t{700 + i % 100}\t{{\"n\":{i}}}" for k in range(3)]
        lines.append(f"c\t{track}\t0\t{at}\t4000")
    lines.append("z\t\"1s\"\t1250000000")
    path.write_bytes(head + "\n".join(lines).encode() + b"\n")
    begun = time.monotonic()
    browser.open(path.as_uri())
    browser.until("document.querySelectorAll('#functions-table tbody tr').length === 50")
    took = time.monotonic() - begun
    print(f"# a million events are there after {took:.1f} s")
    first = browser.value(TABLE)[0]
    tap.check("a page of a million events opens", [] if first[:4] == ["function 0", "lib0.so", "250,000", "1 s"] else [str(first)])
    tap.check("the time of a function without the calls inside is exact",
              differences(browser.value("uprobectlRun.functions.rows[0].name === 'function 0' ? uprobectlRun.functions.rows[0].self : uprobectlRun.functions.rows.find(r => r.name === 'function 0').self"),
                          250_000 * 4000 - 3 * sum(700 + i % 100 for i in range(250_000))))
    for name in ("tree", "flame", "timeline", "events"):
        begun = time.monotonic()
        tab(browser, name)
        browser.value("new Promise(done => requestAnimationFrame(done))", wait=True)
        print(f"# {name}: {time.monotonic() - begun:.2f} s")
    browser.value("document.getElementById('events-list').scrollTop = 1e9")
    browser.until("Array.from(document.querySelectorAll('#events-rows .event')).pop().textContent.includes('thread 7 8')")
    tap.check("the last event can be scrolled to", differences(browser.value(EVENTS)[-1][3], "n=249999"))


def check_numbers(tap, browser, head, folder):
    path = folder / "numbers.html"
    lines = ['r\t"numbers"\t1700000000123456789', 't\t0\t1\t1\t"a"', 't\t1\t1\t0\t"span"', 'n\t0\t"f"\t"m"\t0x10', 'n\t1\t"f"\t"m"\t0x20',
             'n\t2\t"span"\t"m"', 'n\t3\t"open"\t"m"', 'n\t4\t"long"\t"m"', "c\t0\t0\t0\t999700", "C\t0\t1\t2000000\t999",
             "c\t1\t2\t0\t7430000", "c\t1\t2\t1000000\t3120000", "c\t0\t3\t3000000\t1000", 'n\t5\t"slept"\t"m"', "w\t0\t5\t3000100\t500", "b\t0\t3\t3500000", 'c\t0\t4\t-5\t1234567890123\t{"ended":1}']
    path.write_bytes(head + "\n".join(lines).encode())
    browser.open(path.as_uri())
    rows = {row[0]: row[2:] for row in browser.value(TABLE)}
    tap.check("durations are rounded to three digits, and seconds to whole ones", differences(
        (rows["f (0x10)"][1], rows["long"][1]), ("1 ms", "1,235 s")))
    tap.check("functions of one name are two rows", differences((rows["f (0x20)"][0], rows["f (0x20)"][1], rows["f (0x20)"][7]), ("1", "999 ns", "1")))
    tap.check("spans inside of one another are not calls", differences(rows["span"][:3], ["2", "10.6 ms", "10.6 ms"]))
    tap.check("a call that has not ended has failed, and is not in the percentiles", differences(
        (rows["open"][0], rows["open"][3:6], rows["open"][7]), ("2", ["1 µs", "1 µs", "1 µs"], "1")))
    tap.check("a wait is part of its call", differences(("slept" in rows, rows["open"][2]), (False, rows["open"][1])))
    tap.check("values are not taken for failures", differences(rows["long"][7], ""))
    put(browser, "functions-filter", "")
    tab(browser, "events")
    micros = browser.value("document.querySelector('#events-rows .event').children[0].textContent").split(".")[1]
    tap.check("times have the microseconds of the run", differences(micros, "123455"))


def main():
    tap = Tap()
    if not chromium.program():
        tap.skip("pages of runs", "no chromium on this machine")
        tap.done()
        return
    maker = sys.argv[1]
    with tempfile.TemporaryDirectory() as name, chromium.Chromium(seconds=120) as browser:
        folder = Path(name)
        for check in (check_functions, check_tree, check_flame, check_timeline, check_events, check_sums):
            check(tap, browser, maker, folder)
        tap.check("nothing else is loaded", browser.value("performance.getEntriesByType('resource').map(e => e.name)"))
        head = check_hostile(tap, browser, maker, folder)
        check_numbers(tap, browser, head, folder)
        check_waiting(tap, browser, head, folder)
        check_many(tap, browser, head, folder)
        tap.check("no script fails", browser.problems)
    tap.done()


if __name__ == "__main__":
    main()
