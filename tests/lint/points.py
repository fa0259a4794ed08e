#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that one function makes the points to probe: make_point() in src/resolve/point.cpp, which checks
each of them. A second way to one would be a way around the checks. Prints TAP.

    points.py SOURCE_ROOT
"""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap

MAKER = "src/resolve/point.cpp"
# Points of saved runs are shown, never probed.
READERS = {"src/saved/run_reader.cpp"}
MADE = re.compile(r"\bProbePoint (\w+;|\w+\{|\w+ = \{)|\bProbePoint(\{|\(\))|vector<ProbePoint> \w+\(\w+\);")
MOVED = re.compile(r"\b\w*point\w*(\.|->)(address|offset|image_offset|segment_address|segment_offset) = ")
CHECKED = re.compile(r"\bcheck_instruction\((?!const)")
ACCEPTED = re.compile(r"\bpoint\w*(\.|->)effect = \{\}")


def problems(texts: dict[str, str]):
    for name, text in texts.items():
        for number, line in enumerate(text.splitlines(), 1):
            for pattern, allowed, why in (
                    (MADE, {MAKER, *READERS}, "make_point() makes points"),
                    (MOVED, {MAKER, *READERS}, "a point is moved after it was checked"),
                    (CHECKED, {MAKER}, "make_point() checks instructions"),
                    # resolve_number() shows a point with a warning if it is not to be probed.
                    (ACCEPTED, {MAKER}, "an effect is forgotten")):
                if pattern.search(line) and name not in allowed:
                    yield f"{name}:{number}: {why}: {line.strip()}"


BROKEN = {"src/a.cpp": "  ProbePoint point;\n  point.image_offset = x;\n  point->address = y;\n"
                       "  return ProbePoint{};\n  std::vector<ProbePoint> all(n);\n"
                       "  check_instruction(query, point, symbol, name);\n  point.effect = {};\n"}
SOUND = {"src/a.cpp": "  ProbePoint point = std::move(points->front());\n  std::vector<ProbePoint> points;\n"
                      "  const ProbePoint& point = probe.point;\n  if (point.offset == x) return;\n",
         MAKER: "  ProbePoint point;\n  point.offset = image.to_file(offset);\n"}


def main():
    root = Path(sys.argv[1])
    tap = Tap()
    tap.check("this check finds what it looks for", [] if len(list(problems(BROKEN))) == 7 else list(problems(BROKEN)))
    tap.check("this check finds nothing else", list(problems(SOUND)))
    sources = {str(file.relative_to(root)): file.read_text() for file in sorted((root / "src").rglob("*.cpp"))}
    tap.check("one function makes and checks the points to probe", list(problems(sources)))
    tap.done()


if __name__ == "__main__":
    main()
