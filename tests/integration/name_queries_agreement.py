#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""name_queries_agreement.py UPROBECTL FIXTURES
Writes the names of C++ functions in other ways, derived from c++filt's output, and compares the results of
`resolve` with nm's addresses. A spelling of one function must find it; a spelling of several functions must
be ambiguous, unless it is the exact name of one of them. Prints TAP."""

import json
import random
import re
import shlex
import shutil
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tap import Tap

# Functions of a library to try with each spelling. A name in libLLVM takes longer.
SAMPLES = {"/usr/lib/x86_64-linux-gnu/libstdc++.so.6": 24, "/usr/lib/x86_64-linux-gnu/libLLVM-14.so.1": 8}
SHOWN = 10   # problems of a case
OPENING, CLOSING = "(<[{", ")>]}"


def output(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, timeout=250, check=False,
                          **options).stdout


@dataclass(frozen=True)
class Function:
    address: int
    scopes: tuple   # "shop", "Cart<int>", "add[abi:cxx11]"
    parameters: str  # "(int, bool)"
    qualifiers: str  # " const"

    def text(self, first=0):
        return "::".join(self.scopes[first:]) + self.parameters + self.qualifiers


def split(text):
    """The scopes, parameters and qualifiers of c++filt's text; None for other forms: templates with
    their return types, operators, conversions, functions inside of functions, clones."""
    if re.search(r"operator|\{|\[clone|decltype|anonymous|&&\.\.\.| to |for |'", text):
        return None
    depth, scopes, begin, at = 0, [], 0, 0
    while at < len(text):
        c = text[at]
        if c == "(" and depth == 0:
            break
        depth += (c in OPENING) - (c in CLOSING)
        if depth == 0 and text.startswith("::", at):
            scopes.append(text[begin:at])
            begin = at = at + 2
            continue
        if c == " " and depth == 0:
            return None
        at += 1
    match = re.fullmatch(r"(\(.*\))((?: const)?(?: ?&&?)?)", text[at:])
    if at == len(text) or not match or ")(" in match[1].replace("(*)(", ""):
        return None
    return (*scopes, text[begin:at]), match[1], match[2]


def functions(path):
    """Of C++ in .dynsym, with a name of at least two components."""
    rows = [line.split() for line in output("nm", "-D", "--defined-only", path).splitlines()]
    rows = [(int(r[0], 16), r[2].split("@")[0]) for r in rows if r[1] in "TtWwVv" and r[2].startswith("_Z")]
    names = output("c++filt", input="\n".join(raw for _, raw in rows)).splitlines()
    found = {}
    for (address, _), name in zip(rows, names, strict=True):
        parts = split(name)
        if parts and len(parts[0]) > 1:
            found[address, name] = Function(address, *parts)
    return list(found.values())


def without_templates(text):
    depth, kept = 0, ""
    for c in text:
        depth -= c == ">"
        if depth == 0 and c not in "<>":
            kept += c
        depth += c == "<"
    return kept


def leading_const(text):
    return re.sub(r"(?<![\w>:])([\w:]+) const(?=[*&])", r"const \1 ", text)


LIBSTDCXX_STRING = "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >"

OLD_STRING = LIBSTDCXX_STRING.replace("__cxx11::", "")  # which our demangler prints as std::string

# Each returns a spelling of the function, or None if it cannot be spelled so.
SPELLINGS = {
    "spaces": lambda f: f.text().replace(", ", " ,  ").replace("> >", ">>").replace("(", "( "),
    "leading const": lambda f: leading_const(f.text()),
    "words of integers": lambda f: f.text().replace("unsigned long", "long unsigned int"),
    "struct before types": lambda f: re.sub(r"([(,] ?)(?=[a-z]+::)", r"\1struct ", f.text()),
    "(void)": lambda f: f.text().replace("()", "(void)") if f.parameters == "()" else None,
    "no ABI tag": lambda f: re.sub(r"\[abi:\w+\]", "", f.text()),
    "std::string": lambda f: f.text().replace(LIBSTDCXX_STRING, "std::string"),
    "no inline namespace": lambda f: f.text().replace("__cxx11::", "").replace("_V2::", ""),
    "no template arguments": lambda f: without_templates("::".join(f.scopes)) + f.parameters + f.qualifiers,
    "no qualifiers": lambda f: "::".join(f.scopes) + f.parameters if f.qualifiers else None,
    "no parameters": lambda f: "::".join(f.scopes),
    "no first scope": lambda f: f.text(1) if len(f.scopes) > 2 or f.parameters else None,
    "class and name": lambda f: "::".join(f.scopes[-2:]),
}


def variants(function, spell, spelling):
    """All texts by which a function can be meant in this way. Scopes are left out from the front."""
    text = spell(function)
    yield text
    if spelling in ("no first scope", "class and name"):
        for first in range(1, len(function.scopes)):
            for shorter in function.text(first), "::".join(function.scopes[first:]):
                yield shorter
                yield shorter.replace("__cxx11::", "")  # both ABIs are equally close


def ask(program, path, texts):
    """{text: (set of addresses, error code or None)}"""
    request = "".join(f"{shlex.quote(path)} {shlex.quote(text)}\n" for text in texts)
    lines = output(program, "resolve", "--json", "--quiet", "-f", "-", input=request).splitlines()
    answers = {text: (set(), None) for text in texts}
    for record in map(json.loads, lines):
        addresses, code = answers[record["request"]]
        if record["type"] == "match":
            addresses.add(int(record["address"], 16))
        else:
            code = record["code"]
        answers[record["request"]] = addresses, code
    return answers


def plain(text):
    return text.replace(" ", "")


def check(tap, program, path, found, spelling, size):
    spell = SPELLINGS[spelling]
    meant, exact = defaultdict(set), defaultdict(set)
    for function in found:
        for text in (function.text(), "::".join(function.scopes)):
            exact[plain(text)].add(function.address)
            exact[plain(text.replace(OLD_STRING, "std::string"))].add(function.address)
        for text in filter(None, variants(function, spell, spelling)):
            meant[text].add(function.address)
    changed = [f for f in found if spell(f) and spell(f) != f.text()]
    sample = random.Random(spelling).sample(changed, min(size, len(changed)))
    answers = ask(program, path, sorted({spell(f) for f in sample}))
    problems, unique = [], 0
    for text, (addresses, code) in answers.items():
        expected = exact[plain(text)] or meant[text]
        unique += len(expected) == 1
        if code == "ambiguous" and len(expected) > 1:
            continue
        if code or len(addresses) != 1 or not addresses <= expected or len(expected) > 1:
            problems.append(f"{text}: expected {sorted(map(hex, expected))}, found "
                            f"{sorted(map(hex, addresses))} {code}")
    tap.check(f"{Path(path).name}: {spelling} ({len(answers)} names, {unique} of one function)",
              problems[:SHOWN])


def main(program, fixtures):
    tap = Tap()
    if not shutil.which("c++filt"):
        tap.skip("other spellings", "no c++filt")
        return tap.done()
    for path, size in {str(Path(fixtures) / "libshop-names.so"): 100, **SAMPLES}.items():
        if not Path(path).exists():
            tap.skip(f"other spellings in {Path(path).name}", "not installed")
            continue
        found = functions(path)
        for spelling in SPELLINGS:
            check(tap, program, path, found, spelling, size)
    tap.done()


if __name__ == "__main__":
    main(*sys.argv[1:])
