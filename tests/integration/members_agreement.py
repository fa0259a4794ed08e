#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The members that `resolve --with args` records of structures, against pahole. Prints TAP.

    members_agreement.py UPROBECTL
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap

PROGRAM = sys.argv[1]

SOURCE = """
struct inner { short low; char name[5]; };
union either { long number; double real; };
enum color { red, green };
struct outer {
  char first;
  struct inner by_value;
  struct inner *pointers[3];
  union either one_of;
  unsigned flags : 3, more : 7;
  unsigned long wide : 40;
  enum color shade;
  struct { int x, y; };
  union { int left; long right; };
  void (*callback)(int, long);
  long double big;
} __attribute__((aligned(32)));
struct packed { char a; int b; long c; } __attribute__((packed));
int use(struct outer *o, struct packed p, struct inner *const *unused) { return o->flags + p.b; }
struct inner make(union either *e) { struct inner made = {(short)e->number, "a"}; return made; }
"""
# A member of `pahole`: "unsigned int flags:3; /* 40: 0 4 */", "void (*callback)(int, long); /* 72 8 */".
MEMBER = re.compile(r"^\t+(?!struct \{|union \{)(?P<type>.*?)(?:\(\*(?P<function>\w+)\)\(.*\)|(?P<name>\w+)(?:\[\d+\])*(?::(?P<bits>\d+))?);\s*"
                    r"/\*\s+(?P<offset>\d+)(?::\s*(?P<bit>\d+))?\s+(?P<size>\d+)")


def pahole_members(library, structure):
    """{member: (offset, size)}, of bit-fields in bits"""
    text = subprocess.run(["pahole", "-C", structure, library], capture_output=True, text=True, check=True,
                          timeout=60).stdout
    members = {}
    for line in text.splitlines():
        if found := MEMBER.match(line):
            offset = int(found["offset"])
            members[found["function"] or found["name"]] = (
                ("bits", offset * 8 + int(found["bit"]), int(found["bits"])) if found["bits"] else
                (offset, int(found["size"])))
    return members


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as name:
        source, library = Path(name, "members.c"), Path(name, "members.so")
        source.write_text(SOURCE)
        subprocess.run(["gcc", "-g", "-O1", "-shared", "-fPIC", "-o", library, source], check=True, timeout=60)
        text = subprocess.run([PROGRAM, "resolve", "--json", "--with", "args", library, "use", "make"], check=True,
                              capture_output=True, text=True, timeout=60).stdout
        ours = {}
        for record in map(json.loads, text.splitlines()):
            for member in record["details"]["members"]:
                ours.setdefault(member["structure"], {})[member["name"]] = (
                    ("bits", member["offset"] * 8 + member["bit_offset"], member["bit_size"]) if "bit_size" in member else
                    (member["offset"], member["size"]))
        tap.check("the structures are those that parameters and results are or point to",
                  [] if sorted(ours) == ["either", "inner", "outer", "packed"] else [sorted(ours)])
        for structure, members in sorted(ours.items()):
            expected = pahole_members(library, structure)
            tap.check(f"the members of {structure} are where pahole says",
                      [] if members == expected and len(expected) > 1 else [f"ours {members}", f"pahole {expected}"])
    tap.done()


if __name__ == "__main__":
    main()
