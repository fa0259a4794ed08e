#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plans of attach --write-plan against their JSON Schema, and against nm and objdump.
Usage: plan_agreement.py UPROBECTL FIXTURES; prints TAP."""

import json
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from record_schema import SCHEMA, draft_2020_12
from tap import Tap

WHOLE = Path(__file__).resolve().parent.parent / "fuzz/corpus/plan/values"


def lines_of(*command):
    return subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()


class Plans:
    def __init__(self, program, fixtures):
        self.program, self.fixtures = program, fixtures
        schema = json.loads((SCHEMA.parent / "plan.schema.json").read_text())
        self.validator = draft_2020_12()(schema)

    def write(self, *arguments):
        return json.loads("\n".join(lines_of(self.program, "attach", "-q", "--write-plan", "-", *arguments)))

    def problems(self, plan):
        return [f"{'/'.join(map(str, error.absolute_path))}: {error.message[:200]}"
                for error in self.validator.iter_errors(plan)]

    def are_valid(self):
        fixtures = self.fixtures
        found = []
        for arguments in [(fixtures / "shop", "shop_*", "--latency", "-g"), (fixtures / "names.so", "work"),
                          (fixtures / "exits", "shop::*", "--return"),
                          (fixtures / "libgreet.so", "greet_add+0", "greet_scale"),
                          (fixtures / "inlined-calls", "--inlined", "--all", "step"),
                          (fixtures / "versions.so", "--all", "*"),
                          (fixtures / "types/types-registers", "registers_*"),
                          (fixtures / "names.so", "work", "--args", "none")]:
            try:
                found += self.problems(self.write(*arguments))
            except subprocess.CalledProcessError as error:
                found.append(str(error))
        return found

    def schema_has_all_keys(self):
        """The schema takes a plan with each key, and no other key."""
        whole = json.loads(WHOLE.read_text())
        found = self.problems(whole)
        probe = whole["files"][0]["probes"][0]
        types, values = whole["files"][0]["types"], probe["values"]
        for part in [whole, whole["files"][0], probe, probe["source"], probe["exits"]["tail_calls"][0], types[0],
                      types[1]["members"][0], values, values["variables"][0], values["variables"][0]["location"],
                      values["prologue"]]:
            part["other"] = 1
            if not self.problems(whole):
                found.append(f"an unknown key is valid in {sorted(part)}")
            del part["other"]
        return found

    def agree_with_binutils(self):
        """Addresses are those of nm, returns those of objdump."""
        shop = self.fixtures / "shop"
        plan = self.write(shop, "shop_*", "--return")
        addresses = {fields[2]: int(fields[0], 16) for fields in map(str.split, lines_of("nm", shop)) if len(fields) == 3}
        found = []
        for probe in plan["files"][0]["probes"]:
            name = probe["symbol"]
            if int(probe["address"], 16) != addresses[name]:
                found.append(f"{name}: {probe['address']}, nm has {addresses[name]:#x}")
            code = lines_of("objdump", "-d", "--no-show-raw-insn", f"--disassemble={name}", shop)
            returns = [f"0x{line.split(':')[0].strip()}" for line in code if re.search(r":\s+(repz |bnd )?ret\b", line)]
            if probe["exits"]["returns"] != returns:
                found.append(f"{name}: {probe['exits']['returns']}, objdump has {returns}")
        if len(plan["files"][0]["probes"]) < 8:
            found.append("there are fewer functions than in shop.h")
        return found


def main():
    program, fixtures = map(Path, sys.argv[1:])
    plans = Plans(program, fixtures)
    tap = Tap()
    tap.check("plans are as their JSON Schema says", plans.are_valid())
    tap.check("the JSON Schema of plans has all their keys", plans.schema_has_all_keys())
    tap.check("plans have the addresses of nm and the returns of objdump", plans.agree_with_binutils())
    tap.done()


if __name__ == "__main__":
    main()
