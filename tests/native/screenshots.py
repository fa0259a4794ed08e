#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""screenshots.py UPROBECTL SHOP
Makes the pictures of the README from live runs of the fixture shop, in headless Chromium, and compares their size
with those in docs/images. With UPROBECTL_SCREENSHOTS=FOLDER they are also written there. Prints TAP."""

import base64
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "integration")]
import chromium
from tap import Tap

WIDTH, HEIGHT = 1100, 640
LARGEST = 200_000  # bytes of a picture in the repository


def size_of(png):
    """PNG specification, 11.2.2: IHDR is the first chunk."""
    return struct.unpack(">8s4x4s2I", png[:24])


def check_picture(tap, name, png):
    kept = (ROOT / "docs" / "images" / name)
    if folder := os.environ.get("UPROBECTL_SCREENSHOTS"):
        Path(folder, name).write_bytes(png)
    problems = [] if kept.is_file() else [f"{kept} is not there"]
    if not problems and size_of(kept.read_bytes()) != size_of(png):
        problems.append(f"{size_of(kept.read_bytes())}, now {size_of(png)}")
    if len(png) > LARGEST:
        problems.append(f"{len(png)} bytes")
    tap.check(f"docs/images/{name} can be made again", problems)
    named = [each.name for each in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")) if f"images/{name}" in each.read_text()]
    tap.check(f"{name} is shown", [] if "README.md" in named else [str(named)])


def main():
    tap = Tap()
    if not chromium.program():
        tap.skip("screenshots", "no chromium on this machine")
        tap.done()
        return
    uprobectl, shop = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as folder, chromium.Chromium(width=WIDTH, height=HEIGHT) as browser:
        shutil.copy(shop, folder)
        done = subprocess.run([uprobectl, "attach", "--graph", "--off-cpu", "-o", "shop.html", "./shop", "shop_*", "--", "./shop"],
                              cwd=folder, capture_output=True, text=True, timeout=60)
        tap.check("the run of the picture succeeds", [] if done.returncode == 0 else [done.stderr])
        browser.open(Path(folder, "shop.html").as_uri())
        names = browser.value("Array.from(document.querySelectorAll('#functions-table tbody button'), each => each.textContent)")
        tap.check("its page has the functions of the shop", [] if "shop_bake" in names and len(names) == 9 else [str(names)])
        browser.value("Array.from(document.querySelectorAll('#functions-table tbody button')).find(each => each.textContent === 'shop_bake').click()")
        check_picture(tap, "page.png", base64.b64decode(browser.call("Page.captureScreenshot", format="png")["data"]))
        tap.check("no script fails", browser.problems)
    tap.done()


main()
