#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns a file into a C++ source that holds its bytes, compressed: embed.py FILE NAME HEADER OUT. The
private HEADER declares the function `Bytes NAME();`, whose result stays valid."""
import sys
import zlib

file_path, name, header, out_path = sys.argv[1:]
namespace = "uprobectl::" + header.split("/")[0]
with open(file_path, "rb") as f:
    data = f.read()
compressed = zlib.compress(data, 9)
rows = [", ".join(f"0x{b:02x}" for b in compressed[i:i + 24])
        for i in range(0, len(compressed), 24)]
with open(out_path, "w", encoding="ascii") as out:
    out.write(f'#include "{header}"\n#include "util/embedded.hpp"\n\nnamespace {namespace} {{\n\n')
    out.write(f"Bytes {name}() {{\n  static constexpr unsigned char compressed[] = {{\n    ")
    out.write(",\n    ".join(rows))
    out.write("};\n")
    out.write(f"  static const EmbeddedFile file(std::as_bytes(std::span(compressed)), {len(data)});\n")
    out.write("  return file.bytes();\n}\n\n} // namespace " + namespace + "\n")
