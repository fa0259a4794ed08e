#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests how run_instruction_forms.py compares made-up runs with a made-up table. Prints TAP."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
from run_instruction_forms import Run, differences, parse_run  # noqa: E402  (the path above comes first)
from tap import Tap  # noqa: E402

DOCUMENT = """
## x86-64

| what uprobectl says | instructions | 6.12, QEMU | 6.18, AMD Zen 4 |
|---|---|---|---|
| right | | 0 / 0 / 90 | 0 / 0 / 1,000 |
| a 16 bit branch | `66 e2` | 0 / 0 / 4 | 0 / 2 / 2 |
"""


def run_on(processor, branches, right=1000):
    return Run(series="6.18", machine="x86_64", processor=processor,
               kinds={"right": (0, 0, right), "a 16 bit branch": branches})


def main():
    tap = Tap()
    output = "# Linux 6.18.44 x86_64, Intel\n#  4  0  0  4  a 16 bit branch | 66 e2 loop\n"
    tap.check("the processor is read from the output",
              [] if parse_run(output) == Run("6.18", "x86_64", "Intel", {"a 16 bit branch": (0, 0, 4)})
              else [repr(parse_run(output))])
    tap.check("the same results are right", differences(run_on("AMD", (0, 2, 2)), DOCUMENT))
    tap.check("other results on the processor of a column are named",
              [] if differences(run_on("AMD", (0, 1, 3)), DOCUMENT) else ["nothing"])
    tap.check("another vendor may have what another column has", differences(run_on("Intel", (0, 0, 4)), DOCUMENT))
    tap.check("another vendor may not have what no column has",
              [] if differences(run_on("Intel", (1, 0, 3)), DOCUMENT) else ["nothing"])
    tap.check("more forms than the column has are compared kind by kind",
              differences(run_on("AMD", (0, 3, 2), right=2000), DOCUMENT))
    tap.done()


main()
