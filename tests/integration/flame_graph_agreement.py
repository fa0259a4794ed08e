#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""flame_graph_agreement.py FLAME_GRAPH_DRAWER
Folded lines and flame graphs of made-up stacks, against sums computed here and Python's XML parser.
Prints TAP."""

import random
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter, defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap

SVG = "{http://www.w3.org/2000/svg}"
MARGIN, WIDTH, NARROWEST = 12, 1176, 0.2  # pixels
TITLE, SUBTITLE = 'uprobectl attach <x> "f" & g', "10s \x1b[1m, 3 processes"

# As given, and as they are to be shown.
NAMES = {b"main": "main", b"ns::Foo<int&>::bar(char const*)": "ns::Foo<int&>::bar(char const*)",
         b'operator"" _x': 'operator"" _x', b"a;b": "a;b", b"\xff\xfe cut \xe2\x82": "\ufffd\ufffd cut \ufffd\ufffd",
         b"\x01\x1b[0m\x7f\xc2\x85": "  [0m  ", "größe 東京 😀".encode(): "größe 東京 😀",
         b"\xef\xbf\xbe\xed\xa0\x80": "\ufffd" * 4, b"]]></script>": "]]></script>", b"": "[no name]"}
MODULES = [b"", b"libc.so.6", b"base.apk!/lib/libfoo.so", b"</style>"]


def made_stacks(random_numbers, count):
    """(frames, weight): (name, module) pairs, the outermost first."""
    pairs = [(name, random_numbers.choice(MODULES)) for name in NAMES for _ in range(2)]
    pairs = [(name, module or b"m") if not name else (name, module) for name, module in pairs]
    for _ in range(count):
        depth = random_numbers.randrange(1, 12)
        frames = tuple(random_numbers.choice(pairs[:2 + 3 * level]) for level in range(depth))
        yield frames, random_numbers.choice([1, 2, 3, 1000, 50000])


def shown(frame):
    name, module = frame
    return (NAMES[name] if name else f"[{module.decode()}]"), module.decode()


def run(drawer, stacks, *arguments):
    lines = b"".join(b"\t".join([str(weight).encode(), *(text for frame in frames for text in frame)]) + b"\n"
                     for frames, weight in stacks)
    return subprocess.run([drawer, *arguments], input=lines, capture_output=True, check=True).stdout


def draw(drawer, stacks, *view):
    return run(drawer, stacks, "svg", TITLE, SUBTITLE, "hit", *view)


def sums(stacks):
    """What passes through each path."""
    weights = Counter()
    for frames, weight in stacks:
        for depth in range(len(frames) + 1):
            weights[tuple(map(shown, frames[:depth]))] += weight
    return weights


def check_folded(tap, drawer, stacks):
    expected = Counter()
    for frames, weight in stacks:
        expected[";".join(shown(frame)[0].replace(";", ":") for frame in frames)] += weight
    lines = [f"{stack} {weight}" for stack, weight in sorted(expected.items(), key=lambda item: item[0].encode())]
    found = run(drawer, stacks, "folded").decode().split("\n")
    tap.check(f"{len(stacks)} stacks are {len(lines)} folded lines",
              [f"found {a!r}, expected {b!r}" for a, b in zip(found, lines + [""]) if a != b][:5]
              + ([] if len(found) == len(lines) + 1 else [f"{len(found) - 1} lines, expected {len(lines)}"]))


class Drawn:
    """A frame as it stands in the file."""

    def __init__(self, g):
        self.lines = g.find(SVG + "title").text.split("\n")
        rect, label = g.find(SVG + "rect"), g.find(SVG + "text")
        self.x, self.y, self.width = (float(rect.get(name)) for name in ("x", "y", "width"))
        self.style = rect.get("class")
        self.label = None if label is None else label.text
        self.at, self.weight = int(g.get("data-at")), int(g.get("data-weight"))


def with_paths(frames):
    """Each frame with the path that follows from where it stands: below its caller, and not beyond."""
    rows = defaultdict(list)
    for frame in frames:
        rows[frame.y].append(frame)
    paths, above = {}, []
    for y in sorted(rows):
        for frame in rows[y]:
            caller = [c for c in above if c.at <= frame.at and frame.at + frame.weight <= c.at + c.weight]
            module = frame.lines[1] if len(frame.lines) > 2 else ""
            paths[frame] = (*paths[caller[0]], (frame.lines[0], module)) if caller else ()
        above = rows[y]
    return paths


def overlaps(frames):
    ends = {}
    for frame in sorted(frames, key=lambda f: (f.y, f.at)):
        if frame.at < ends.get(frame.y, 0):
            yield f"{frame.lines} begins before the frame to its left ends"
        ends[frame.y] = frame.at + frame.weight


def check_picture(tap, drawer, stacks):
    root = ElementTree.fromstring(draw(drawer, stacks))
    frames = [Drawn(g) for g in root.find(f"{SVG}g[@id='frames']")]
    weights, total = sums(stacks), sum(weight for _, weight in stacks)
    visible = {path: weight for path, weight in weights.items() if weight * WIDTH >= NARROWEST * total}
    paths = with_paths(frames)
    tap.check(f"the picture has {len(visible)} frames with their weights",
              [] if {paths[f]: f.weight for f in frames} == visible and len(frames) == len(visible)
              else [f"{f.lines}: {f.weight}" for f in frames if visible.get(paths[f]) != f.weight][:5] + [len(frames)])
    tap.check("as wide as these, at most 0.01 pixels off",
              [f"{f.lines}: {f.x}, {f.width}" for f in frames
               if abs(f.width - f.weight * WIDTH / total) > 0.01 or abs(f.x - MARGIN - f.at * WIDTH / total) > 0.01])
    tap.check("none over another", list(overlaps(frames)))
    tap.check("each title has count and percentage",
              [f.lines for f in frames
               if f.lines[-1] != f"{f.weight} of {total} hits, {100 * f.weight / total:.2f}%"][:5])
    texts = [text.text for text in root.findall(SVG + "text")]
    left_out = len(weights) - len(visible)
    tap.check(f"the {left_out} that are too narrow are counted",
              [] if f"Not drawn: {left_out} frames too narrow" in texts[2] else texts)
    tap.check("title and subtitle are text",
              [] if (root.find(SVG + "title").text, *texts[:2]) == (TITLE, TITLE, "10s  [1m, 3 processes") else texts)
    tap.check("names stand in their frames, shortened where they have to be",
              [f"{f.lines[0]!r}: {f.label!r}, {f.width} wide" for f in frames[1:] if not fits(f)][:5])


def check_views(tap, drawer, stacks):
    """Views from the innermost function: what passes through each reversed path."""
    for view, first in (("inverted", 0), ("callers", 1)):
        turned = [(frames[::-1][first:], weight) for frames, weight in stacks if len(frames) > first]
        weights, total = sums(turned), sum(weight for _, weight in turned)
        visible = {path: weight for path, weight in weights.items() if weight * WIDTH >= NARROWEST * total}
        root = ElementTree.fromstring(draw(drawer, stacks, view))
        frames = [Drawn(g) for g in root.find(f"{SVG}g[@id='frames']")]
        paths = with_paths(frames)
        tap.check(f"view '{view}': {len(visible)} frames with the weights of the stacks from their other end",
                  [f"{f.lines}: {f.weight}" for f in frames if visible.get(paths[f]) != f.weight][:5]
                  + ([] if len(frames) == len(visible) else [len(frames)]))
        note = [text.text for text in root.findall(SVG + "text")][2]
        tap.check("and it says what is above", [] if note.startswith("Callees above, callers below.") else [note])


def check_shades(tap, drawer, stacks):
    frames = [Drawn(g) for g in ElementTree.fromstring(draw(drawer, stacks)).find(f"{SVG}g[@id='frames']")]
    ends = {(f.y, f.at + f.weight): f for f in frames[1:]}
    paths = with_paths(frames)
    by_path = {paths[f]: f for f in frames}
    left = [(f, ends.get((f.y, f.at))) for f in frames[1:]]
    tap.check("a frame has another colour than the one to its left",
              [f"{f.lines} and {other.lines}: {f.style}" for f, other in left if other and f.style == other.style][:5])
    tap.check("and another than its caller",
              [f"{f.lines}: {f.style}" for f in frames if len(paths[f]) > 1
               and by_path[paths[f][:-1]].style == f.style][:5])


# The shortened form of a name that does not fit.
SHORTER = {"ns::Foo<int&>::bar(char const*)": ["ns::Foo::bar", "Foo::bar", "bar"]}


def fits(frame):
    name, label = frame.lines[0], frame.label
    if label is None:
        return frame.width < 26
    columns = sum(2 if letter >= "\u2e80" else 1 for letter in label)
    begins = [name, *SHORTER.get(name, [])]
    whole = label in begins or (label.endswith("…") and any(text.startswith(label[:-1]) for text in begins))
    return whole and columns * 6.6 <= frame.width


def fill(svg, name):
    """The colour of a frame, as the style sheet has it."""
    root = ElementTree.fromstring(svg)
    style = next(d.style for d in map(Drawn, root.find(f"{SVG}g[@id='frames']")) if d.lines[0] == name)
    return re.search(rf"\.{style} {{ fill: (#[0-9a-f]{{6}});", root.find(SVG + "style").text)[1]


def check_colours(tap, drawer):
    few = draw(drawer, [(((b"f", b"libc.so.6"), (b"g", b"libm.so.6")), 1)])
    more = draw(drawer, [(((b"a", b"app"), (b"h", b"libc.so.6"), (b"i", b"liba.so"), (b"g", b"libm.so.6")), 7)])
    tap.check("a module has the same colour in every picture",
              [] if (fill(few, "f"), fill(few, "g")) == (fill(more, "h"), fill(more, "g")) else ["not so"])
    colours = [fill(few, "f"), fill(few, "g"), fill(more, "a"), fill(more, "i")]
    tap.check("and others have others", [] if len(set(colours)) == 4 else colours)


def main(drawer):
    tap = Tap()
    random_numbers = random.Random(8)
    stacks = list(made_stacks(random_numbers, 1500))
    check_folded(tap, drawer, stacks)
    check_picture(tap, drawer, stacks)
    check_colours(tap, drawer)
    check_views(tap, drawer, stacks)
    check_shades(tap, drawer, stacks)
    svg = draw(drawer, stacks)
    random_numbers.shuffle(stacks)
    tap.check("the order of the stacks makes no difference",
              [] if draw(drawer, stacks) == svg else ["the pictures differ"])
    outside = re.findall(rb"(?:href|src)\s*=|url\(|@import|<!DOCTYPE|<!ENTITY|eval\(|Function\(", svg)
    tap.check("the picture refers to no other files", outside)
    none = ElementTree.fromstring(draw(drawer, []))
    tap.check("without stacks it says so",
              [] if any(text.text == "There are no stacks." for text in none.findall(SVG + "text")) else ["not said"])
    tap.done()


if __name__ == "__main__":
    main(*sys.argv[1:])
