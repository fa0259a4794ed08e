#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a Python test if there is time for it: if_time_is_left.py MINUTES TEST.py ARGUMENT…

UPROBECTL_TESTS_END says when the run of all tests is ended, in seconds since 1970 (tools/test with a limit of
time); without it every test runs. What is left out on a slow machine, as a skip, is what other tests of the run
come nearest to, or what does not depend on the machine.
"""

import os
import sys
import time

minutes, command = float(sys.argv[1]), sys.argv[2:]
left = (float(os.environ.get("UPROBECTL_TESTS_END") or "inf") - time.time()) / 60
if left < minutes:
    print(f"1..0 # SKIP the machine is slow: {max(left, 0):.0f} minutes are left, and it can take {minutes:g}")
    sys.exit(0)
os.execv(sys.executable, [sys.executable, *command])
