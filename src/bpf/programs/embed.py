#!/usr/bin/env python3
"""Turns a BPF object file into a C++ source that holds its bytes: embed.py OBJECT NAME OUT."""
import sys

object_path, name, out_path = sys.argv[1:]
with open(object_path, "rb") as f:
    data = f.read()
rows = [", ".join(f"0x{b:02x}" for b in data[i:i + 24]) for i in range(0, len(data), 24)]
with open(out_path, "w", encoding="ascii") as out:
    out.write('#include "bpf/embedded.hpp"\n\nnamespace uprobectl {\nnamespace {\n')
    out.write("alignas(8) constexpr unsigned char object[] = {\n    ")
    out.write(",\n    ".join(rows))
    out.write("};\n} // namespace\n\n")
    out.write(f"Bytes {name}() {{ return std::as_bytes(std::span(object)); }}\n")
    out.write("} // namespace uprobectl\n")
