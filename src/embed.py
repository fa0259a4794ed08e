#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns a file into a C++ source that holds its bytes: embed.py [--plain] FILE NAME HEADER OUT. The private HEADER
declares the function `Bytes NAME();`, whose result stays valid. The bytes are compressed, without --plain."""
import sys
import zlib

arguments = [argument for argument in sys.argv[1:] if argument != "--plain"]
is_plain = len(arguments) < len(sys.argv) - 1
file_path, name, header, out_path = arguments
namespace = "uprobectl::" + header.split("/")[0]
with open(file_path, "rb") as f:
    data = f.read()
stored = data if is_plain else zlib.compress(data, 9)
rows = [", ".join(f"0x{b:02x}" for b in stored[i:i + 24]) for i in range(0, len(stored), 24)]
with open(out_path, "w", encoding="ascii") as out:
    out.write(f'#include "{header}"\n#include "util/embedded.hpp"\n\nnamespace {namespace} {{\n\n')
    out.write(f"Bytes {name}() {{\n  static constexpr unsigned char stored[] = {{\n    ")
    out.write(",\n    ".join(rows))
    out.write("};\n")
    if is_plain:
        out.write("  return std::as_bytes(std::span(stored));\n")
    else:
        out.write(f"  static const EmbeddedFile file(std::as_bytes(std::span(stored)), {len(data)});\n"
                  "  return file.bytes();\n")
    out.write("}\n\n} // namespace " + namespace + "\n")
