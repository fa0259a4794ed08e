#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts the page of a run together, up to its records, and embeds it: page_head.py HTML PART… EMBED OUT. The HTML
file has a comment with the name of each part."""
import subprocess
import sys
from pathlib import Path

html, *parts, embed, out = sys.argv[1:]
text = Path(html).read_text(encoding="utf-8")
for path in parts:
    content = Path(path).read_text(encoding="utf-8")
    mark = f"/* {Path(path).name} */"
    if "</" in content or text.count(mark) != 1:
        sys.exit(f"{path}: cannot stand in a page")
    text = text.replace(mark, content)
page = Path(out + ".html")
page.write_text(text, encoding="utf-8")
subprocess.run([sys.executable, embed, page, "page_head", "output/page.hpp", out], check=True)
