#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the descriptions of terminals that the program holds: those of this machine.
Usage: terminal_descriptions.py OUTPUT"""

import subprocess
import sys
from pathlib import Path

NAMES = ["xterm-256color", "xterm", "screen-256color", "screen", "tmux-256color", "tmux", "linux", "vt220", "vt100"]


def description(name):
    """infocmp(1): -0 writes one line, -Q2 the compiled form in base64."""
    text = subprocess.run(["infocmp", "-0", "-Q2", name], capture_output=True, text=True, check=True).stdout
    return next(line for line in text.splitlines() if line.startswith("b64:"))


rows = "".join(f'    {{"{name}",\n     "{description(name)}"}},\n' for name in NAMES)
Path(sys.argv[1]).write_text(f"""#include "live/terminal_descriptions.hpp"

namespace uprobectl::live {{

namespace {{
constexpr TerminalDescription descriptions[] = {{
{rows}}};
}} // namespace

std::span<const TerminalDescription> terminal_descriptions() {{ return descriptions; }}

}} // namespace uprobectl::live
""")
