#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the C++ source of embedded_prototypes(): embed_prototypes.py OUT TABLE…. Comments and the
indentation of continued lines are left out."""
import pathlib
import re
import sys

out_path, *tables = sys.argv[1:]


def shortened(text):
    text = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)
    return re.sub(r"\n[ \t]+", " ", text)


def literals(text):
    """Raw string literals; compilers limit the length of one."""
    lines = [line + "\n" for line in text.splitlines() if line.strip()]
    return "\n".join(f'     R"_({line})_"' for line in lines)


with open(out_path, "w", encoding="utf-8") as out:
    out.write('#include "events/prototypes.hpp"\n\nnamespace uprobectl::events {\n\n')
    out.write("std::span<const EmbeddedPrototypes> embedded_prototypes() {\n")
    out.write("  static constexpr EmbeddedPrototypes all[] = {\n")
    for path in map(pathlib.Path, tables):
        out.write(f'    {{"{path.name}",\n{literals(shortened(path.read_text("utf-8")))}}},\n')
    out.write("  };\n  return all;\n}\n\n} // namespace uprobectl::events\n")
