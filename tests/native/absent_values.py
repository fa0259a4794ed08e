#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""absent_values.py UPROBECTL
Paths to values that a call may not have: what a std::optional holds, and the variants of Rust's enums. Where there is
none the memory has what was there before, which is not shown, compared or counted. Needs root and g++. Prints TAP."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap

UPROBECTL = str(Path(sys.argv[1]).resolve())
TAP = Tap()
NONE = "no value"  # instead of a value

CXX_PROGRAM = r"""
#include <optional>
#include <string>
struct Pair { int x; long y; };
struct Item { int id; std::optional<long> limit; std::optional<std::string> name; std::optional<Pair> pair; };
using Twice = std::optional<std::optional<int>>;
#define FUNCTION extern "C" __attribute__((noipa))
FUNCTION int by_value(std::optional<int> o) { return o ? *o : -1; }
FUNCTION long wide(std::optional<long> o) { return o ? *o : -1; }
FUNCTION int referred(const std::optional<int>& o) { return o ? *o : -1; }
FUNCTION int take(const Item* i, const Twice* twice) { return i->id + (*twice ? 1 : 0); }
int main() {
  std::optional<int> some = 5;
  by_value(some);
  referred(some);
  wide(6);
  some.reset();
  by_value(some);
  referred(some);
  wide(std::nullopt);
  Item item{1, 70, "seven", Pair{7, 8}};
  Twice twice = std::optional<int>(3);
  take(&item, &twice);
  item.limit.reset();
  item.name.reset();
  item.pair.reset();
  twice->reset();
  item.id = 2;
  take(&item, &twice);
  twice.reset();
  item.id = 3;
  take(&item, &twice);
}
"""
RUST_PROGRAM = r"""
use std::hint::black_box;
pub enum Shape { Empty, Circle { radius: u32 }, Rect { w: u32, h: u32 } }
pub enum Token { Text(String), Number(u64), End }
pub struct Request { pub id: u32, pub limit: Option<u64>, pub link: Option<Box<u32>>, pub shape: Shape, pub token: Token }
#[no_mangle] #[inline(never)]
pub fn handle(r: &Request) -> u32 { black_box(r.id) }
fn main() {
    let mut r = Request { id: 1, limit: Some(77), link: Some(Box::new(5)), shape: Shape::Rect { w: 3, h: 4 },
                          token: Token::Text(String::from("word")) };
    handle(&r);
    r.limit = None;
    r.link = None;
    r.shape = Shape::Circle { radius: 8 };
    r.token = Token::Number(6);
    r.id = 2;
    handle(&r);
    r.token = Token::End;
    r.shape = Shape::Empty;
    handle(black_box(&r));
}
"""


def attach(program, *words):
    done = subprocess.run([UPROBECTL, "attach", "-j", "-d", "30s", *words, "--", program], capture_output=True, text=True,
                          timeout=60, check=False)
    if done.returncode != 0:
        return done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def report(*words):
    done = subprocess.run([UPROBECTL, "report", "-j", *words], capture_output=True, text=True, timeout=60, check=False)
    return [json.loads(line) for line in done.stdout.splitlines()] if done.returncode == 0 else done.stderr


def of_type(records, kind):
    return [each for each in records if each["type"] == kind] if isinstance(records, list) else [records]


def values_of(records, name):
    """The value of each event, or why there is none."""
    return [next(each["error"] or each["value"] for each in event["arguments"] if each["name"] == name)
            if isinstance(event, dict) else event for event in of_type(records, "event")]


def same(expected, found):
    return [] if found == expected else [f"{found}, expected {expected}"]


def check_paths(program, function, expected, *options):
    records = attach(program, "--args", ",".join(expected), *options, program, function)
    for path, values in expected.items():
        TAP.check(f"{' '.join([function, *options])}: {path}", same(values, values_of(records, path)))


def check_conditions(program, function, saved, conditions):
    for condition, count in conditions.items():
        for options in ([], ["--latency"]):
            records = attach(program, *options, "--if", condition, program, function)
            TAP.check(f"{function}: --if '{condition}' {' '.join(options)}",
                      same([count, []], [len(of_type(records, "event")), of_type(records, "lost")]))
        TAP.check(f"{function}: report --if '{condition}'", same(count, len(of_type(report("--if", condition, saved), "event"))))


def check_optionals(folder):
    program = str(folder / "calls")
    (folder / "calls.cpp").write_text(CXX_PROGRAM)
    subprocess.run(["g++", "-std=c++17", "-O1", "-g", "-o", program, folder / "calls.cpp"], check=True)
    for function, value in (("by_value", 5), ("referred", 5), ("wide", 6)):
        check_paths(program, function, {"*o": [value, NONE]})
        check_paths(program, function, {"*o": [value, NONE]}, "--latency")
    check_paths(program, "take", {"*i->limit": [70, NONE, NONE], "*i->name": ["seven", NONE, NONE],
                                  "*i->pair": [{"x": 7, "y": 8}, f"x: {NONE}", f"x: {NONE}"], "i->pair->y": [8, NONE, NONE]})
    check_paths(program, "take", {"**twice": [3, "nullopt", NONE], "***twice": [3, NONE, NONE]})
    attach(program, "--args", "*i->limit,*i->name,i->pair->y,i->id", "--save", folder / "saved", program, "take")
    check_conditions(program, "take", folder / "saved", {
        "*i->limit == 70": 1, "*i->limit != 3": 1, "!(*i->limit == 3)": 1, '*i->name == "seven"': 1, "i->pair->y < 9": 1,
        "*i->limit == 70 || i->id == 3": 2, "!(*i->limit == 70) || i->id == 3": 1})
    for condition in ("*i->limit < 71 && ret > 0", "!(*i->limit < 70 && ret > 0)"):
        records = attach(program, "--latency", "--if", condition, program, "take")
        TAP.check(f"at the return: {condition}", same([1, []], [len(of_type(records, "event")), of_type(records, "lost")]))
    records = attach(program, "--graph", "--args", "*i->limit", "--root-if", "*i->limit == 70", program, "take")
    TAP.check("roots without the value are left out as such", same(
        [(1, 2, 0)], [(each["shown"], each["dropped"], each["unknown"]) for each in of_type(records, "graph_trees")]))
    counts = {each["by"][0]["error"] or each["by"][0]["value"]: each["count"]
              for each in of_type(attach(program, "--count", "--by", "*i->limit", program, "take"), "count")}
    TAP.check("counts by what an optional holds", same({70: 1, NONE: 2}, counts))
    refused = attach(program, "--histogram", "--measure", "*i->limit", program, "take")
    TAP.check("a sum of what may not be there is refused",
              [] if "it may have no value, which cannot be asked here" in refused else [refused])


def check_enums(folder):
    if not shutil.which("rustc"):
        TAP.skip("variants of Rust's enums", "no program 'rustc'")
        return
    program = str(folder / "shapes")
    (folder / "shapes.rs").write_text(RUST_PROGRAM)
    subprocess.run(["rustc", "-g", "-C", "opt-level=1", "-o", program, folder / "shapes.rs"], check=True, timeout=120)
    check_paths(program, "handle", {
        "r.shape.Rect.w": [3, NONE, NONE], "r.shape.Circle.radius": [NONE, 8, NONE], "r.limit.Some.__0": [77, NONE, NONE],
        "*r.link.Some.__0": [5, NONE, NONE]})
    # The numbers of the others tell that it is Text.
    check_paths(program, "handle", {"r.token.Text.__0": ["word", NONE, NONE], "r.token.Number.__0": [NONE, 6, NONE]})
    refused = attach(program, "--args", "r.shape.Empty", program, "handle")
    TAP.check("a variant without members is not shown", [] if "it has no members" in refused else [refused])
    attach(program, "--args", "r.shape.Circle.radius,r.limit.Some.__0", "--save", folder / "shapes.run", program, "handle")
    check_conditions(program, "handle", folder / "shapes.run", {"r.shape.Circle.radius == 8": 1, "r.shape.Circle.radius != 8": 0,
                                                                "r.limit.Some.__0 > 0": 1})


def main():
    if os.geteuid() != 0 or not shutil.which("g++"):
        TAP.skip("values that are absent", "not root" if os.geteuid() != 0 else "no program 'g++'")
        return TAP.done()
    with tempfile.TemporaryDirectory() as name:
        check_optionals(Path(name))
        check_enums(Path(name))
    TAP.done()


main()
