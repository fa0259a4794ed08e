#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns a file into a C++ source that holds its bytes: embed.py FILE NAME HEADER OUT. The private
HEADER declares the function `Bytes NAME();`."""
import sys

file_path, name, header, out_path = sys.argv[1:]
with open(file_path, "rb") as f:
    data = f.read()
rows = [", ".join(f"0x{b:02x}" for b in data[i:i + 24]) for i in range(0, len(data), 24)]
with open(out_path, "w", encoding="ascii") as out:
    out.write(f'#include "{header}"\n\nnamespace uprobectl {{\n\nBytes {name}() {{\n')
    out.write("  alignas(8) static constexpr unsigned char content[] = {\n    ")
    out.write(",\n    ".join(rows))
    out.write("};\n  return std::as_bytes(std::span(content));\n}\n\n} // namespace uprobectl\n")
